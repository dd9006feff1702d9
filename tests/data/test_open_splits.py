import pytest

from pnjax import config as config_lib
from pnjax import data
from tests import small_runs
from tests.data import archives


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
  return small_runs.prepare(tmp_path_factory.mktemp("data"))


@pytest.fixture
def dataset(data_dir):
  """The group `dataset` of a config for a folder of images."""
  dataset = config_lib.get_config().dataset
  dataset.name, dataset.data_dir = "folder", str(data_dir)
  return dataset


@pytest.mark.parametrize(
  ("split", "expected"),
  [
    ("train", "test"),
    ("train+validation", "test"),
    ("train_80", "test_20"),
    ("half_3_train", "half_3_test"),
    ("fold_10_train", "fold_10_test"),
    ("half_3_train[:50%]", "test"),
  ],
)
def test_the_counterpart_of_a_split(dataset, split, expected):
  dataset.split = split
  assert data.evaluation_split(dataset) == expected
  dataset.test_split = "validation"
  assert data.evaluation_split(dataset) == "validation"


def test_both_splits_are_opened(dataset):
  train, test = data.open_splits(dataset)
  assert (train.split, len(train)) == ("train", 24)
  assert (test.split, len(test)) == ("test", 15)


@pytest.mark.parametrize(
  ("fields", "message"),
  [
    ({"split": "all"}, "15 images of all are also in test, which is evaluated on"),
    ({"test_split": "tset"}, "`split` is 'tset', expected all, one of train, test"),
    (
      {"num_classes": 7},
      r"num_classes is 7, but folder has 3 classes; .*num_classes=3",
    ),
  ],
)
def test_mistakes(dataset, fields, message):
  dataset.update(fields)
  with pytest.raises(ValueError, match=message):
    data.open_splits(dataset)


@pytest.fixture
def prepare_splits(dataset, tmp_path):
  """A function that makes `dataset` one of some splits only."""

  def prepare(*names):
    for seed, name in enumerate(names):
      for label in ("ant", "bee"):
        for i in range(4):
          path = tmp_path / "source" / name / label / f"{i}.jpg"
          archives.write_image(path, 10 * seed + i + 100 * (label == "bee"))
    dataset.data_dir = str(tmp_path / "data")
    data.prepare("folder", tmp_path / "source", dataset.data_dir)

  return prepare


@pytest.mark.parametrize("name", ["validation", "val"])
def test_without_a_test_split_validation_is_evaluated_on(dataset, prepare_splits, name):
  prepare_splits("train", name)
  train, test = data.open_splits(dataset)
  assert (train.split, test.split) == ("train", "validation")


def test_a_test_split_goes_before_validation(dataset, prepare_splits):
  prepare_splits("train", "validation", "test")
  assert data.open_splits(dataset)[1].split == "test"


@pytest.mark.parametrize(
  ("names", "split"),
  [
    (["train"], "train"),
    (["train"], "all"),
    (["train", "val"], "train+validation"),
    (["train", "val"], "train+validation[:50%]"),
    (["train", "val"], "all"),
  ],
)
def test_no_images_to_evaluate_on(dataset, prepare_splits, names, split):
  prepare_splits(*names)
  dataset.split = split
  with pytest.raises(
    ValueError, match=r"^folder has no images to evaluate on"
  ) as error:
    data.open_splits(dataset)
  assert "add a folder test or validation and prepare it again" in str(error.value)
  assert str(error.value).endswith("with --config.dataset.fold=1/5.")
  dataset.fold = "1/4"
  assert len(data.open_splits(dataset)[1])


def test_image_options_are_arguments_of_batches(dataset):
  dataset.image_size, dataset.num_crops = 16, 12
  dataset.resize_side = 20
  (train, _) = data.open_splits(dataset)
  options = data.image_options(dataset)
  assert options == {"image_size": 16, "num_crops": 12, "resize_side": 20}
  batch = next(iter(data.eval_batches(train, batch_size=2, **options)))
  assert batch["image"].shape == (2, 12, 16, 16, 3)


def test_a_fold_is_held_out(dataset):
  whole = data.open_split("folder", "train", dataset.data_dir)
  seen = []
  for number in (1, 2, 3):
    dataset.fold = f"{number}/3"
    train, test = data.open_splits(dataset)
    assert test.split == data.evaluation_split(dataset) == f"fold {number}/3 of train"
    assert sorted([*train.indices, *test.indices]) == sorted(whole.indices)
    assert (len(train), len(test)) == (16, 8)
    seen.extend(test.indices)
  assert sorted(seen) == sorted(whole.indices)


@pytest.mark.parametrize("fold", ["4/3", "0/3", "1/1", "1/25", "one", "1/3/5"])
def test_folds_that_do_not_exist(dataset, fold):
  dataset.fold = fold
  with pytest.raises(ValueError, match=f"fold is '{fold}', expected a fold and their"):
    data.open_splits(dataset)
