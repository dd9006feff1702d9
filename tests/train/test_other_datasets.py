from pnjax import runs
from tests import small_runs
from tests.data import other_datasets


def test_a_dataset_of_tfds_trains_by_name(config, tmp_path, monkeypatch):
  monkeypatch.setenv("PNJAX_CACHE", str(tmp_path / "cache"))
  other_datasets.build(other_datasets.Shades, tmp_path / "tfds")
  config.dataset.name, config.dataset.data_dir = "shades", str(tmp_path / "tfds")
  result = small_runs.run(config, tmp_path / "run")
  assert result["num_examples"] == other_datasets.SIZES["test"]
  assert result["refit"]["top1"] == 1
  names = list(other_datasets.CLASS_NAMES)
  assert list(result["per_class"]) == names
  assert runs.read_class_names(tmp_path / "run") == names
