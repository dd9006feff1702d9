import errno
import hashlib
import json
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest

from pnjax import config as config_lib
from pnjax import data
from pnjax.data import _tfds
from pnjax.data import _tfds_index
from tests.data import other_datasets


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
  """A folder with several datasets, which tests only read."""
  folder = tmp_path_factory.mktemp("tfds")
  for builder in (
    other_datasets.Shades,
    other_datasets.OneFeature,
    other_datasets.MultiLabel,
    other_datasets.NoImages,
    other_datasets.Unlabelled,
    other_datasets.Broken,
  ):
    other_datasets.build(builder, folder)
  for config in ("full", "small"):
    other_datasets.build(other_datasets.Variants, folder, config=config)
  return folder


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
  """A cache of its own for each test."""
  monkeypatch.setenv("PNJAX_CACHE", str(tmp_path / "cache"))
  return tmp_path / "cache"


def test_images_labels_and_names_are_those_of_the_dataset(prepared):
  train = data.open_split("shades", "train", prepared)
  assert (len(train), train.class_names) == (12, other_datasets.CLASS_NAMES)
  assert np.bincount(train.labels).tolist() == [4, 4, 4]
  for example, label, digest in zip(train, train.labels, train.digests, strict=True):
    number, index = map(int, example["file"].removesuffix(".png").split("-"))
    assert example["image"] == other_datasets.png(number, index)
    assert example["label"] == label == number
    assert hashlib.sha256(example["image"]).hexdigest() == digest


def test_splits_have_the_syntax_and_the_order_of_tfds(prepared):
  def files(spec):
    return [e["file"] for e in data.open_split("shades", spec, prepared)]

  train, test = files("train"), files("test")
  assert not set(train) & set(test)
  assert files("train[:25%]+test[1:]") == train[:3] + test[1:]
  assert sorted(files("all")) == sorted(train + test)
  with pytest.raises(ValueError, match="'val', expected all, one of train, test"):
    files("val")


def test_other_names_of_features(prepared):
  split = data.open_split("one_feature", "test", prepared)
  label = int(split.labels[2])
  assert split[2]["label"] == label
  assert split[2]["image"] in [other_datasets.png(label, 100 + i) for i in range(6)]
  assert split[2]["file"] == f"image {split.indices[2]}"


def test_versions_and_configs(prepared):
  expected = data.open_split("shades", "train", prepared).fingerprint
  assert data.open_split("shades:1.2.0", "train", prepared).fingerprint == expected
  for name in ("variants/small", "variants/small:2.1.0", "variants"):
    assert len(data.open_split(name, "train", prepared)) == 12
  assert _tfds.find("variants", prepared).parts[-2:] == ("full", "2.0.0")
  assert _tfds.find("variants/small", prepared).parts[-2:] == ("small", "2.1.0")


def test_the_latest_version_is_opened(prepared, tmp_path):
  source = prepared / "shades/1.2.0"
  for version in ("1.9.0", "1.10.0"):
    shutil.copytree(source, tmp_path / "data/shades" / version)
  assert _tfds.find("shades", tmp_path / "data").name == "1.10.0"


def test_the_index_is_made_once(prepared, cache, monkeypatch):
  first = data.open_split("shades", "train", prepared)
  assert len(list((cache / "datasets").iterdir())) == 1
  monkeypatch.setattr(_tfds_index, "_make_index", None)
  assert data.open_split("shades", "train", prepared).fingerprint == first.fingerprint


def test_changed_files_are_read_again(prepared, cache, tmp_path):
  shutil.copytree(prepared / "shades", tmp_path / "data/shades")
  first = data.open_split("shades", "train", tmp_path / "data")
  assert first.fingerprint == data.open_split("shades", "train", prepared).fingerprint
  assert len(list((cache / "datasets").iterdir())) == 2


def test_a_split_can_be_pickled(prepared):
  split = data.open_split("shades", "train", prepared)
  assert pickle.loads(pickle.dumps(split))[3] == split[3]


def test_batches_resume(prepared):
  split = data.open_split("shades", "train", prepared)
  batches = iter(data.train_batches(split, batch_size=4, image_size=8, seed=0))
  next(batches)
  state, expected = batches.get_state(), next(batches)
  again = iter(data.train_batches(split, batch_size=4, image_size=8, seed=0))
  again.set_state(state)
  np.testing.assert_array_equal(next(again)["image"], expected["image"])


@pytest.mark.parametrize(
  ("name", "error", "message"),
  [
    ("imagenette", FileNotFoundError, "`tfds build imagenette --file_format=array_rec"),
    ("shades:3.0.0", FileNotFoundError, r"prepared in .*: there is shades:1\.2\.0\."),
    (
      "variants/tiny",
      FileNotFoundError,
      r"there is variants/full:2\.0\.0, variants/sm",
    ),
    ("../shades", FileNotFoundError, "or a dataset of TFDS: NAME, NAME/CONFIG or"),
    ("multi_label", ValueError, "no features of type ClassLabel, .* Sequence of Class"),
    ("no_images", ValueError, "no features of type Image .* number: Scalar"),
    ("broken", ValueError, r"1 of 12 images of broken, train, .* 1-4\.png: the image"),
  ],
)
def test_mistakes(prepared, name, error, message):
  with pytest.raises(error, match=message) as raised:
    data.open_split(name, "train", prepared)
  assert "\n" not in str(raised.value)


def test_another_file_format_is_refused(prepared, tmp_path):
  folder = shutil.copytree(prepared / "shades/1.2.0", tmp_path / "shades/1.2.0")
  info = folder / "dataset_info.json"
  info.write_text(info.read_text().replace("array_record", "tfrecord"))
  expected = r'is stored as tfrecord, .* file_format="array_record"'
  with pytest.raises(ValueError, match=expected):
    data.open_split("shades", "train", tmp_path)


def test_images_without_labels_are_refused(prepared):
  dataset = config_lib.get_config().dataset
  dataset.name, dataset.data_dir = "unlabelled", str(prepared)
  with pytest.raises(ValueError, match=r"^6 of 6 images of unlabelled, test, have no"):
    data.open_splits(dataset)
  dataset.split, dataset.fold = "all", "1/3"
  with pytest.raises(ValueError, match="images of unlabelled, all without fold"):
    data.open_splits(dataset)
  assert len(data.open_split("unlabelled", "train", prepared)) == 12
  with pytest.raises(
    ValueError, match="6 of 6 images of unlabelled, test, have no lab"
  ):
    data.open_split("unlabelled", "test", prepared)


@pytest.mark.parametrize(
  "pattern", ["*.array_record*", "dataset_info.json", "features.json"]
)
def test_a_damaged_dataset_is_reported(prepared, tmp_path, pattern):
  shutil.copytree(prepared / "shades", tmp_path / "data/shades")
  for path in (tmp_path / "data/shades/1.2.0").glob(pattern):
    path.write_bytes(path.read_bytes()[:100])
  with pytest.raises(OSError, match=r"is damaged \(.*; delete it and prepare shades"):
    data.open_split("shades", "train", tmp_path / "data")


def test_nothing_imports_tensorflow(prepared):
  script = f"""
import sys
from pnjax import data
split = data.open_split("shades", "train", {str(prepared)!r})
next(iter(data.train_batches(split, batch_size=2, image_size=8, seed=0)))
assert "tensorflow" not in sys.modules
"""
  subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)


@pytest.mark.parametrize(
  "content", [b"", b"PK\3\4 damaged", b"half"], ids=["empty", "changed", "half"]
)
def test_a_damaged_index_is_made_again(prepared, cache, caplog, content):
  expected = data.open_split("shades", "train", prepared).fingerprint
  (path,) = (cache / "datasets").iterdir()
  intact = path.read_bytes()
  path.write_bytes(intact[: len(intact) // 2] if content == b"half" else content)
  assert data.open_split("shades", "train", prepared).fingerprint == expected
  assert f"{path} is damaged (" in caplog.text
  assert path.read_bytes() == intact


@pytest.mark.parametrize(
  "arrays",
  [
    {"labels": np.zeros(12, np.int32)},
    {"labels": np.zeros(11, np.int32), "digests": np.zeros(11, "U64")},
    {"labels": np.zeros(12), "digests": np.zeros(12, "U64")},
    {"labels": np.zeros(12, np.int32), "digests": np.zeros(12, np.int32)},
    {"labels": np.array([{}] * 12), "digests": np.zeros(12, "U64")},
  ],
  ids=["digests missing", "too few", "fractions", "numbers", "pickles"],
)
def test_an_index_of_something_else_is_made_again(prepared, cache, arrays):
  expected = data.open_split("shades", "train", prepared).fingerprint
  (path,) = (cache / "datasets").iterdir()
  np.savez(path, **arrays)
  assert data.open_split("shades", "train", prepared).fingerprint == expected


def test_without_a_cache_the_index_is_made_each_time(
  prepared, tmp_path, monkeypatch, caplog
):
  (tmp_path / "file").write_text("not a folder")
  monkeypatch.setenv("PNJAX_CACHE", str(tmp_path / "file"))
  assert len(data.open_split("shades", "train", prepared)) == 12
  assert "cannot be kept (Not a directory" in caplog.text


def test_a_full_cache_keeps_no_half_an_index(prepared, cache, monkeypatch, caplog):
  def fill(path, **arrays):
    path.write_bytes(b"half")
    raise OSError(errno.ENOSPC, "No space left on device")

  monkeypatch.setattr(np, "savez", fill)
  assert len(data.open_split("shades", "train", prepared)) == 12
  assert "cannot be kept (No space left" in caplog.text
  assert list((cache / "datasets").iterdir()) == []


def test_a_changed_record_is_refused(prepared, tmp_path):
  folder = shutil.copytree(prepared / "shades/1.2.0", tmp_path / "shades/1.2.0")
  (path,) = folder.glob("*train.array_record*")
  content = bytearray(path.read_bytes())
  for i in range(1000, 1100):
    content[i] ^= 0xFF
  path.write_bytes(content)
  with pytest.raises(OSError, match=r"1.2.0 is damaged \(.*delete it and prepare sha"):
    data.open_split("shades", "train", tmp_path)


def test_a_missing_record_file_is_refused(prepared, tmp_path):
  folder = shutil.copytree(prepared / "shades/1.2.0", tmp_path / "shades/1.2.0")
  (path,) = folder.glob("*train.array_record*")
  path.unlink()
  with pytest.raises(OSError, match=r"1.2.0 is damaged \(.*No such file"):
    data.open_split("shades", "train", tmp_path)


def test_a_folder_without_a_version_is_refused(prepared, tmp_path):
  shutil.copytree(prepared / "shades/1.2.0", tmp_path / "shades")
  with pytest.raises(FileNotFoundError, match="`tfds build shades --file_format"):
    data.open_split("shades", "train", tmp_path)


def test_an_empty_version_is_refused(tmp_path):
  (tmp_path / "shades/1.2.0").mkdir(parents=True)
  with pytest.raises(OSError, match=r"1.2.0 is damaged \(.*No such file.*dataset_info"):
    data.open_split("shades", "train", tmp_path)


def test_a_damaged_list_of_configs_is_refused(prepared, tmp_path):
  shutil.copytree(prepared / "variants", tmp_path / "variants")
  (tmp_path / "variants/.config/metadata.json").write_text("{")
  with pytest.raises(OSError, match=r"variants/.config is damaged \(Expecting"):
    data.open_split("variants", "train", tmp_path)
  assert len(data.open_split("variants/small", "train", tmp_path)) == 12


def change_info(prepared, tmp_path, change):
  folder = shutil.copytree(prepared / "shades/1.2.0", tmp_path / "shades/1.2.0")
  info = json.loads((folder / "dataset_info.json").read_text())
  change(info)
  (folder / "dataset_info.json").write_text(json.dumps(info))


@pytest.mark.parametrize("splits", [[], None])
def test_a_dataset_without_splits_is_refused(prepared, tmp_path, splits):
  change_info(prepared, tmp_path, lambda info: info.update(splits=splits))
  with pytest.raises(ValueError, match=r"shades in .* has no images, expected some"):
    data.open_split("shades", "train", tmp_path)


def test_a_split_without_images_is_refused(prepared, tmp_path):
  def empty(info):
    for split in info["splits"]:
      split["shardLengths"], split["numBytes"] = [], "0"

  change_info(prepared, tmp_path, empty)
  with pytest.raises(ValueError, match=r"shades in .* has no images, expected some"):
    data.open_split("shades", "train", tmp_path)


def test_more_records_than_there_are_is_refused(prepared, tmp_path):
  change_info(
    prepared,
    tmp_path,
    lambda info: [split.update(shardLengths=["99"]) for split in info["splits"]],
  )
  with pytest.raises(OSError, match=r"1.2.0 is damaged \("):
    data.open_split("shades", "train", tmp_path)
