"""The official layouts, prepared and opened again."""

import hashlib
import json
import os

import numpy as np
import pytest
import tensorflow_datasets as tfds

from pnjax import data
from pnjax.data import _archives
from tests.data import archives

FMD_CLASSES = _archives._FMD_CLASSES
HALVES = [f"half_{k}_{part}" for k in range(1, 11) for part in ("train", "test")]
FOLDS = [f"fold_{k}_{part}" for k in range(1, 11) for part in ("train", "test")]


@pytest.fixture
def source(tmp_path):
  folder = tmp_path / "source"
  folder.mkdir()
  return folder


@pytest.fixture
def data_dir(tmp_path):
  return tmp_path / "data"


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


def test_flower102_has_the_names_that_tfds_knows(source, data_dir):
  archives.flower102(source)
  data.prepare("flower102", source, data_dir)
  names = data.open_split("flower102", "test", data_dir).class_names
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


def test_mit67_has_80_percent_of_all_of_each_class(source, data_dir):
  archives.mit67(source)
  data.prepare("mit67", source, data_dir)
  train = data.open_split("mit67", "train_80", data_dir)
  test = data.open_split("mit67", "test_20", data_dir)
  assert np.bincount(train.labels).tolist() == [8, 8, 8]
  assert np.bincount(test.labels).tolist() == [2, 2, 2]
  both = {e["file"] for e in train} | {e["file"] for e in test}
  assert both == set(files("mit67", "all", data_dir))
  assert len(both) == 30


def test_mit67_may_have_bare_class_folders(source, data_dir):
  lists = archives.mit67(source)
  for folder in (source / "Images").iterdir():
    folder.rename(source / folder.name)
  (source / "Images").rmdir()
  data.prepare("mit67", source, data_dir)
  assert files("mit67", "test", data_dir) == lists["TestImages.txt"]


def test_mit67_names_listed_pictures_that_are_missing(source, data_dir):
  archives.mit67(source)
  (source / "Images/bakery/bakery_9.jpg").unlink()
  with pytest.raises(FileNotFoundError, match=r"1 pictures .* bakery/bakery_9\.jpg"):
    data.prepare("mit67", source, data_dir)


def test_fmd_has_ten_halves_and_ten_folds(source, data_dir):
  archives.fmd(source, FMD_CLASSES)
  data.prepare("fmd", source, data_dir)
  everything = set(files("fmd", "all", data_dir))
  assert len(everything) == 100
  sizes = {"half_train": 5, "half_test": 5, "fold_train": 9, "fold_test": 1}
  seen = {}
  for split in HALVES + FOLDS:
    opened = data.open_split("fmd", split, data_dir)
    kind, _, part = split.split("_")
    assert np.bincount(opened.labels).tolist() == [sizes[f"{kind}_{part}"]] * 10
    seen[split] = frozenset(opened[i]["file"] for i in range(len(opened)))
  for train, test in zip((HALVES + FOLDS)[::2], (HALVES + FOLDS)[1::2], strict=True):
    assert seen[train] | seen[test] == everything
  assert len(set(seen.values())) == len(seen)  # No two splits are the same.
  # The folds are a cross-validation: every picture is tested once.
  assert frozenset.union(*(seen[split] for split in FOLDS[1::2])) == everything


def test_fmd_stores_every_picture_once(source, data_dir):
  archives.fmd(source, FMD_CLASSES)
  folder = data.prepare("fmd", source, data_dir)
  assert tfds.builder_from_directory(folder).info.splits.total_num_examples == 100


def test_fmd_may_have_bare_class_folders(source, data_dir):
  archives.fmd(source, FMD_CLASSES, per_class=2)
  data.prepare("fmd", source / "image", data_dir)
  assert len(data.open_split("fmd", "all", data_dir)) == 20


def test_fmd_splits_do_not_change():
  pictures = [_archives.Picture(str(i), i // 100, None) for i in range(1000)]
  lists = [_archives._stratified(pictures, 0.5, seed=3), _archives._folds(pictures)]
  digest = hashlib.sha256(json.dumps(lists).encode()).hexdigest()
  # Results on them are comparable only as long as they stay what they are.
  assert digest == "9463dc95fd28b2dd476b6e9e20eb9384cbdb6de78362c5031bd742466aa0380a"


def test_fmd_takes_folds_from_lists(source, data_dir, tmp_path):
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


def test_fmd_says_which_class_is_missing(source, data_dir):
  archives.fmd(source, FMD_CLASSES[:-1], per_class=1)
  with pytest.raises(FileNotFoundError, match="has no wood; expected the folder"):
    data.prepare("fmd", source, data_dir)


@pytest.mark.parametrize("nested", [False, True])
def test_food101_has_the_lists_of_meta(source, data_dir, nested):
  lists = archives.food101(source)
  data.prepare("food101", source if nested else source / "food-101", data_dir)
  for split, lines in lists.items():
    assert files("food101", split, data_dir) == [f"images/{x}.jpg" for x in lines]
  opened = data.open_split("food101", "test", data_dir)
  assert opened.class_names == archives.FOOD101_CLASSES
  assert opened.labels.tolist() == [0, 0, 1, 1]


def test_food101_names_listed_pictures_that_are_missing(source, data_dir):
  archives.food101(source)
  (source / "food-101/images/baklava/1002.jpg").unlink()
  with pytest.raises(FileNotFoundError, match=r"baklava/1002\.jpg; unpack all"):
    data.prepare("food101", source, data_dir)


def test_folder_is_split_by_class(source, data_dir):
  archives.folder(source, per_class=10)
  archives.write_picture(source / "cat" / "only.jpg", 0)
  data.prepare("folder", source, data_dir)
  train = data.open_split("folder", "train", data_dir)
  test = data.open_split("folder", "test", data_dir)
  assert train.class_names == ("ant", "bee", "cat")
  assert np.bincount(train.labels).tolist() == [8, 8, 1]
  assert np.bincount(test.labels).tolist() == [2, 2]


def test_folder_of_two_pictures_a_class_tests_one(source, data_dir):
  archives.folder(source, per_class=2)
  data.prepare("folder", source, data_dir)
  assert data.open_split("folder", "test", data_dir).labels.tolist() == [0, 1]


def test_pictures_beside_class_folders_are_named(source, data_dir, caplog):
  archives.folder(source, per_class=2)
  archives.write_picture(source / "cover.jpg", 0)
  data.prepare("folder", source, data_dir)
  assert len(data.open_split("folder", "all", data_dir)) == 4
  assert "1 pictures beside the class folders are left out" in caplog.text
  assert "cover.jpg" in caplog.text


def test_folder_may_be_split_already(source, data_dir):
  archives.folder(source / "train", ("ant", "bee", "cat"), per_class=2)
  archives.folder(source / "validation", ("bee",), per_class=1)
  archives.folder(source / "test", ("ant", "cat"), per_class=1)
  data.prepare("folder", source, data_dir)
  labels = {
    split: data.open_split("folder", split, data_dir).labels.tolist()
    for split in ("train", "validation", "test")
  }
  assert labels == {"train": [0, 0, 1, 1, 2, 2], "validation": [1], "test": [0, 2]}


def test_split_folders_go_by_other_names_too(source, data_dir, caplog):
  archives.folder(source / "Train", ("ant", "bee"), per_class=2)
  archives.folder(source / "val", ("bee",), per_class=1)
  archives.folder(source / "__MACOSX", ("bee",), per_class=1)
  archives.folder(source / "unlabelled", ("x",), per_class=1)
  data.prepare("folder", source, data_dir)
  train, validation = (
    data.open_split("folder", split, data_dir) for split in ("train", "validation")
  )
  assert train.labels.tolist() == [0, 0, 1, 1]
  assert validation.labels.tolist() == [1]
  assert "1 folders beside those of splits are left out" in caplog.text
  archives.folder(source / "valid", ("bee",), per_class=1)
  with pytest.raises(ValueError, match="are both for validation"):
    data.prepare("folder", source, data_dir)


def test_pictures_in_hidden_folders_are_left_out(source, data_dir):
  archives.folder(source, per_class=2)
  archives.write_picture(source / "ant" / ".ipynb_checkpoints" / "copy.jpg", 0)
  data.prepare("folder", source, data_dir)
  assert len(data.open_split("folder", "all", data_dir)) == 4


def test_names_that_are_no_text_are_refused(source, data_dir):
  archives.folder(source, per_class=2)
  (source / "ant" / os.fsdecode(b"caf\xe9.jpg")).write_bytes(archives.jpeg(0))
  with pytest.raises(ValueError, match=r"caf\\udce9.jpg' in .* is no name in UTF-8"):
    data.prepare("folder", source, data_dir)


def test_a_class_may_be_called_train(source, data_dir):
  archives.folder(source, ("bus", "train"), per_class=2)
  data.prepare("folder", source, data_dir)
  assert data.open_split("folder", "all", data_dir).class_names == ("bus", "train")


@pytest.mark.parametrize("content", ["nothing", "an empty class"])
def test_folder_without_pictures_is_refused(source, data_dir, content):
  if content == "an empty class":
    archives.folder(source)
    (source / "cat").mkdir()
  with pytest.raises(FileNotFoundError, match="has no"):
    data.prepare("folder", source, data_dir)


def test_tfds_itself_reads_what_was_prepared(source, data_dir):
  archives.food101(source)
  folder = data.prepare("food101", source, data_dir)
  builder = tfds.builder_from_directory(folder)
  assert builder.info.splits["train"].num_examples == 8
  example = builder.as_data_source("test")[1]
  assert example["image"].shape == (32, 40, 3)
  assert example["label"] == 0
