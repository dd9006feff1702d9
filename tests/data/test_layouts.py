"""Archives in the official layouts, prepared and opened."""

import numpy as np
import pytest
import scipy.io
import tensorflow_datasets as tfds

from pnjax import data
from pnjax.data import _layouts
from tests.data import archives

FMD_CLASSES = _layouts.FMD_CLASSES
HALVES = [f"half_{k}_{part}" for k in range(1, 11) for part in ("train", "test")]
FOLDS = [f"fold_{k}_{part}" for k in range(1, 11) for part in ("train", "test")]


@pytest.fixture(scope="module")
def fmd(tmp_path_factory):
  """A folder of datasets, in which `fmd` has 10 images per class."""
  root = tmp_path_factory.mktemp("fmd")
  archives.fmd(root / "source", FMD_CLASSES)
  data.prepare("fmd", root / "source", root / "data")
  return root / "data"


def files(name, split, data_dir):
  return [example["file"] for example in data.open_split(name, split, data_dir)]


def test_flower102_has_the_splits_of_setid(source, data_dir):
  labels, ids = archives.flower102(source)
  data.prepare("flower102", source, data_dir)
  for split, key in (("train", "trnid"), ("validation", "valid"), ("test", "tstid")):
    opened = data.open_split("flower102", split, data_dir)
    assert [e["file"] for e in opened] == [f"jpg/image_{i:05}.jpg" for i in ids[key]]
    np.testing.assert_array_equal(opened.labels, labels[ids[key] - 1])
    assert [e["label"] for e in opened] == opened.labels.tolist()
    assert opened[2]["image"] == archives.jpeg(int(ids[key][2]))
  both = files("flower102", "train+validation", data_dir)
  assert both == files("flower102", "train", data_dir) + files(
    "flower102", "validation", data_dir
  )


def test_flower102_has_the_class_names_of_tfds(source):
  archives.flower102(source)
  names = _layouts.read_flower102(source).class_names
  assert len(names) == 102
  assert (names[0], names[101]) == ("pink primrose", "blackberry lily")


def test_mit67_has_the_official_lists(source, data_dir):
  lists = archives.mit67(source)
  data.prepare("mit67", source, data_dir)
  assert files("mit67", "train", data_dir) == lists["TrainImages.txt"]
  assert files("mit67", "test", data_dir) == lists["TestImages.txt"]
  opened = data.open_split("mit67", "test", data_dir)
  assert opened.class_names == archives.MIT67_CLASSES
  assert opened.labels.tolist() == [0, 0, 1, 1, 2, 2]


def test_mit67_trains_on_80_percent_of_each_class(source, data_dir):
  archives.mit67(source)
  data.prepare("mit67", source, data_dir)
  train = data.open_split("mit67", "train_80", data_dir)
  test = data.open_split("mit67", "test_20", data_dir)
  assert np.bincount(train.labels).tolist() == [8, 8, 8]
  assert np.bincount(test.labels).tolist() == [2, 2, 2]
  both = {e["file"] for e in train} | {e["file"] for e in test}
  assert both == set(files("mit67", "all", data_dir))
  assert len(both) == 30


def test_mit67_may_consist_of_class_folders(source):
  archives.mit67(source)
  expected = _layouts.read_mit67(source)
  for folder in (source / "Images").iterdir():
    folder.rename(source / folder.name)
  (source / "Images").rmdir()
  archive = _layouts.read_mit67(source)
  assert [i.file for i in archive.images] == [i.file for i in expected.images]
  assert archive.lists == expected.lists
  assert archive.images[3].read() == archives.jpeg(3)


def test_mit67_names_missing_images(source):
  archives.mit67(source)
  (source / "Images/bakery/bakery_9.jpg").unlink()
  message = r"1 listed image is missing: bakery/bakery_9\.jpg; unpack the whole"
  with pytest.raises(FileNotFoundError, match=message):
    _layouts.read_mit67(source)


def test_an_error_names_at_most_ten_missing_images(source):
  archives.food101(source)
  for file in (source / "food-101/images").glob("*/*.jpg"):
    file.unlink()
  with pytest.raises(FileNotFoundError, match="12 listed images") as error:
    _layouts.read_food101(source)
  assert str(error.value).count(".jpg") == 10
  assert ", …; unpack" in str(error.value)


def test_fmd_has_ten_halves_and_ten_folds(fmd):
  everything = set(files("fmd", "all", fmd))
  assert len(everything) == 100
  sizes = {"half_train": 5, "half_test": 5, "fold_train": 9, "fold_test": 1}
  seen = {}
  for split in HALVES + FOLDS:
    opened = data.open_split("fmd", split, fmd)
    kind, _, part = split.split("_")
    assert np.bincount(opened.labels).tolist() == [sizes[f"{kind}_{part}"]] * 10
    seen[split] = frozenset(example["file"] for example in opened)
  for train, test in zip((HALVES + FOLDS)[::2], (HALVES + FOLDS)[1::2], strict=True):
    assert seen[train] | seen[test] == everything
  assert len(set(seen.values())) == len(seen)  # No two splits are equal.
  # The folds are a cross-validation: each image is in one test split.
  assert frozenset.union(*(seen[split] for split in FOLDS[1::2])) == everything


def test_fmd_stores_each_image_once(fmd):
  folder = data.prepare("fmd", fmd.parent / "source", fmd)
  assert tfds.builder_from_directory(folder).info.splits.total_num_examples == 100


def test_fmd_may_consist_of_class_folders(source):
  archives.fmd(source, FMD_CLASSES, per_class=2)
  files = [image.file for image in _layouts.read_fmd(source / "image").images]
  assert files == [image.file for image in _layouts.read_fmd(source).images]
  assert len(files) == 20


def test_fmd_reads_folds_from_lists(source, data_dir, tmp_path):
  archives.fmd(source, FMD_CLASSES, per_class=2)
  for k in range(1, 11):
    name = FMD_CLASSES[k - 1]
    lines = [f"{c}/{c}_{i:03}_new.jpg" for c in FMD_CLASSES for i in range(2)]
    test = [f"{name}/{name}_001_new.jpg"]
    (tmp_path / f"test_{k}.txt").write_text("\n".join(test))
    (tmp_path / f"train_{k}.txt").write_text("\n".join(set(lines) - set(test)))
  data.prepare("fmd", source, data_dir, splits=tmp_path)
  assert files("fmd", "fold_3_test", data_dir) == ["glass/glass_001_new.jpg"]
  assert len(data.open_split("fmd", "fold_3_train", data_dir)) == 19
  assert len(data.open_split("fmd", "half_3_train", data_dir)) == 10


def test_fmd_names_missing_classes(source):
  archives.fmd(source, FMD_CLASSES[:-1], per_class=1)
  with pytest.raises(FileNotFoundError, match="has no wood; expected the folder"):
    _layouts.read_fmd(source)


@pytest.mark.parametrize("nested", [False, True])
def test_food101_has_the_lists_of_meta(source, data_dir, nested):
  lists = archives.food101(source)
  data.prepare("food101", source if nested else source / "food-101", data_dir)
  for split, lines in lists.items():
    assert files("food101", split, data_dir) == [f"images/{x}.jpg" for x in lines]
  opened = data.open_split("food101", "test", data_dir)
  assert opened.class_names == archives.FOOD101_CLASSES
  assert opened.labels.tolist() == [0, 0, 1, 1]


def test_food101_names_missing_images(source):
  archives.food101(source)
  (source / "food-101/images/baklava/1002.jpg").unlink()
  with pytest.raises(FileNotFoundError, match=r"baklava/1002\.jpg; unpack the whole"):
    _layouts.read_food101(source)


def test_tfds_reads_a_prepared_dataset(source, data_dir):
  archives.food101(source)
  folder = data.prepare("food101", source, data_dir)
  builder = tfds.builder_from_directory(folder)
  assert builder.info.splits["train"].num_examples == 8
  example = builder.as_data_source("test")[1]
  assert example["image"].shape == (32, 40, 3)
  assert example["label"] == 0


@pytest.mark.parametrize("name", ["imagelabels.mat", "setid.mat"])
@pytest.mark.parametrize("content", [b"", b"not MATLAB", None])
def test_flower102_names_a_damaged_list(source, data_dir, name, content):
  archives.flower102(source)
  if content is None:
    content = (source / name).read_bytes()[:150]
  (source / name).write_bytes(content)
  with pytest.raises(ValueError, match=rf"{name} is damaged \(.*unpack the archive"):
    data.prepare("flower102", source, data_dir)


@pytest.mark.parametrize(
  ("name", "changes", "reason"),
  [
    ("imagelabels.mat", {"labels": [[103] * 18]}, "it has 103, expected at most 102"),
    ("imagelabels.mat", {"labels": [[0] * 18]}, "expected numbers from 1"),
    ("imagelabels.mat", {"labels": [[0.5] * 18]}, "expected numbers from 1"),
    ("imagelabels.mat", {"other": [[1]]}, "it has no 'labels'"),
    (
      "setid.mat",
      {"trnid": [[19]], "valid": [[1]], "tstid": [[2]]},
      "it has 19, expected at most 18",
    ),
  ],
)
def test_flower102_names_a_list_that_cannot_be(source, data_dir, name, changes, reason):
  archives.flower102(source)
  scipy.io.savemat(source / name, changes)
  with pytest.raises(ValueError, match=rf"{name} is damaged \({reason}"):
    data.prepare("flower102", source, data_dir)


def test_a_list_in_another_encoding_is_named(source, data_dir):
  archives.mit67(source)
  (source / "TestImages.txt").write_bytes(b"caf\xe9/a.jpg")
  with pytest.raises(ValueError, match=r"TestImages.txt is damaged \('utf-8' codec"):
    data.prepare("mit67", source, data_dir)
