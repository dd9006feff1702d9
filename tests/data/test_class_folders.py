import os
import pathlib

import numpy as np
import pytest

from pnjax import data
from pnjax.data._class_folders import read_folder
from tests.data import archives


def labels(archive, split):
  return [image.label for image in archive.stored[split]]


def test_each_class_is_split(source, data_dir):
  archives.folder(source, per_class=10)
  archives.write_image(source / "cat" / "only.jpg", 0)
  data.prepare("folder", source, data_dir)
  train = data.open_split("folder", "train", data_dir)
  test = data.open_split("folder", "test", data_dir)
  assert train.class_names == ("ant", "bee", "cat")
  assert np.bincount(train.labels).tolist() == [8, 8, 1]
  assert np.bincount(test.labels).tolist() == [2, 2]


def test_one_of_two_images_is_for_the_test(source):
  archives.folder(source, per_class=2)
  archive = read_folder(source)
  assert labels(archive, "train") == labels(archive, "test") == [0, 1]


def test_images_outside_of_class_folders_are_reported(source, caplog):
  archives.folder(source, per_class=2)
  archives.write_image(source / "cover.jpg", 0)
  assert len(read_folder(source).images) == 4
  assert "1 image outside of class folders is ignored, such as" in caplog.text
  assert "cover.jpg" in caplog.text


def test_a_folder_may_be_split_already(source, data_dir):
  archives.folder(source / "train", ("ant", "bee", "cat"), per_class=2)
  archives.folder(source / "validation", ("bee",), per_class=1)
  archives.folder(source / "test", ("ant", "cat"), per_class=1)
  data.prepare("folder", source, data_dir)
  opened = {
    split: data.open_split("folder", split, data_dir).labels.tolist()
    for split in ("train", "validation", "test")
  }
  assert opened == {"train": [0, 0, 1, 1, 2, 2], "validation": [1], "test": [0, 2]}


def test_split_folders_may_have_other_names(source, caplog):
  archives.folder(source / "Train", ("ant", "bee"), per_class=2)
  archives.folder(source / "val", ("bee",), per_class=1)
  archives.folder(source / "__MACOSX", ("bee",), per_class=1)
  archives.folder(source / "unlabelled", ("x",), per_class=1)
  archive = read_folder(source)
  assert list(archive.stored) == ["train", "validation"]
  assert labels(archive, "train") == [0, 0, 1, 1]
  assert labels(archive, "validation") == [1]
  assert "1 folder next to the split folders is ignored" in caplog.text
  assert "unlabelled" in caplog.text


def test_classes_that_train_lacks_are_an_error(source):
  archives.folder(source / "train", ("ant", "bee"), per_class=1)
  archives.folder(source / "test", ("ant", "bees", "木"), per_class=1)
  with pytest.raises(
    ValueError,
    match=r"test has classes that train does not have: bees, 木; test lacks bee of "
    r"train; expected the names of train, which are ant, bee\.",
  ):
    read_folder(source)


def test_classes_that_only_train_has_are_reported(source, caplog):
  archives.folder(source / "train", ("ant", "bee"), per_class=1)
  archives.folder(source / "test", ("ant",), per_class=1)
  assert read_folder(source).class_names == ("ant", "bee")
  assert "test lacks bee of train" in caplog.text


def test_two_folders_of_one_split_are_refused(source):
  for name in ("train", "val", "valid"):
    archives.folder(source / name, ("bee",), per_class=1)
  with pytest.raises(ValueError, match="are both for validation, expected one"):
    read_folder(source)


def test_hidden_folders_are_skipped(source):
  archives.folder(source, per_class=2)
  archives.write_image(source / "ant" / ".ipynb_checkpoints" / "copy.jpg", 0)
  archives.write_image(source / ".cache" / "copy.jpg", 0)
  archive = read_folder(source)
  assert archive.class_names == ("ant", "bee")
  assert len(archive.images) == 4


def test_file_names_must_be_valid_utf8(source):
  archives.folder(source, per_class=2)
  (source / "ant" / os.fsdecode(b"caf\xe9.jpg")).write_bytes(archives.jpeg(0))
  with pytest.raises(ValueError, match=r"caf\\udce9.jpg' in .* is not valid UTF-8"):
    read_folder(source)


def test_a_class_may_be_called_train(source):
  archives.folder(source, ("bus", "train"), per_class=2)
  assert read_folder(source).class_names == ("bus", "train")


def test_a_folder_without_classes_is_refused(source):
  archives.write_image(source / "loose.jpg", 0)
  with pytest.raises(FileNotFoundError, match="source has no folders, expected one"):
    read_folder(source)


def test_an_empty_class_is_refused(source):
  archives.folder(source)
  (source / "cat").mkdir()
  with pytest.raises(FileNotFoundError, match="cat has no images, expected some"):
    read_folder(source)


def test_classes_of_one_image_are_refused(source):
  archives.folder(source, ("ant", "bee"), per_class=1)
  with pytest.raises(ValueError, match=r"No class has two images \(2 images in all"):
    read_folder(source)


def test_a_folder_of_test_images_only_is_refused(source):
  archives.folder(source / "test", per_class=1)
  with pytest.raises(ValueError, match="images of test only, expected some of train"):
    read_folder(source)


@pytest.mark.parametrize("parent", ["", "train"])
def test_files_of_other_formats_are_reported(source, caplog, parent):
  archives.folder(source / parent, per_class=2)
  for name in ("1.heic", "2.heic", "notes.txt", ".DS_Store"):
    (source / parent / "ant" / name).write_bytes(b"not an image")
  assert len(read_folder(source).images) == 4
  (message,) = caplog.messages
  assert message.startswith("3 files without a suffix of images are ignored, such as ")
  assert message.endswith("ant/1.heic")


@pytest.mark.parametrize("folder", ["", "ant", "ant/more"])
def test_a_folder_that_cannot_be_read_is_named(source, monkeypatch, folder):
  """As the tests may run as root, for whom everything is readable."""
  archives.folder(source)
  archives.write_image(source / "ant/more/0.jpg", 50)
  scandir, listdir = os.scandir, os.listdir

  def deny(function):
    def call(path="."):
      if pathlib.Path(path) == source / folder:
        raise PermissionError(13, "Permission denied", str(path))
      return function(path)

    return call

  monkeypatch.setattr(os, "scandir", deny(scandir))
  monkeypatch.setattr(os, "listdir", deny(listdir))
  with pytest.raises(OSError, match=r"cannot be read \(Permission denied\)") as error:
    read_folder(source)
  assert str(source / folder) in str(error.value)


@pytest.mark.parametrize("inner", ["images", "images/train"])
def test_a_folder_around_the_class_folders_is_named(source, inner):
  archives.folder(source / inner)
  with pytest.raises(ValueError, match="only one class, 'images'; expected") as error:
    read_folder(source)
  assert f"If the folders in {source / 'images'} are the classes" in str(error.value)
