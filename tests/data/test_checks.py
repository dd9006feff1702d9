"""What is said about an archive before it is prepared."""

import csv
import os

import pytest

from pnjax import data
from pnjax.data import _archive
from tests.data import archives


@pytest.fixture
def prepare_labels(source, data_dir):
  """A function that prepares images with the given labels."""

  def prepare(labels, files=None):
    files = files or [f"{i}.jpg" for i in range(len(labels))]
    for i, file in enumerate(files):
      archives.write_image(source / file, i)
    with open(source / "labels.csv", "w", newline="", encoding="utf-8") as file:
      rows = zip(files, labels, strict=True)
      csv.writer(file).writerows([("path", "label"), *rows])
    return data.prepare("folder", source / "labels.csv", data_dir)

  return prepare


@pytest.mark.parametrize(
  ("name", "shown"),
  [
    ("a\nb", r"'a\\nb'"),
    ("a\rb", r"'a\\rb'"),
    ("\x1b[31mred", r"'\\x1b\[31mred'"),
    ("a\0b", r"'a\\x00b'"),
    ("a\u2028b", r"'a\\u2028b'"),
    ("a\u202eb", r"'a\\u202eb'"),
  ],
  ids=["newline", "return", "escape", "nul", "separator", "reversed"],
)
def test_control_characters_in_class_names_are_refused(prepare_labels, name, shown):
  with pytest.raises(ValueError, match=f"^class {shown} has line breaks or other"):
    prepare_labels([name, name, "bee", "bee"])


def test_very_long_class_names_are_refused(prepare_labels):
  with pytest.raises(ValueError, match="'xxxxxxxxxxxxxxxxxxxx'… has a name of 256"):
    prepare_labels(["x" * 256, "bee"] * 2)


@pytest.mark.parametrize("name", ["<b>bold</b> &amp;", "a/b", "../up", "木 (tree)"])
def test_other_class_names_are_kept(prepare_labels, data_dir, name):
  prepare_labels([name, "bee"] * 2)
  assert name in data.open_split("folder", "all", data_dir).class_names


def test_spaces_around_a_folder_name_are_refused(source, data_dir):
  archives.folder(source, ("ant", "bee "))
  with pytest.raises(ValueError, match="class 'bee ' has spaces around its name"):
    data.prepare("folder", source, data_dir)


@pytest.mark.parametrize("name", ["a\nb.jpg", "\x1b[2Jb.jpg"])
def test_control_characters_in_file_names_are_refused(source, data_dir, name):
  archives.folder(source)
  archives.write_image(source / "ant" / name, 9)
  with pytest.raises(ValueError, match=r"^image 'ant/\S+b.jpg' has line") as raised:
    data.prepare("folder", source, data_dir)
  assert str(raised.value).isprintable()


def test_a_single_class_is_refused(source, data_dir):
  archives.folder(source, ("ant",))
  with pytest.raises(ValueError, match="only one class, 'ant'; expected two or more"):
    data.prepare("folder", source, data_dir)


def test_a_single_class_in_a_label_file_is_refused(prepare_labels):
  with pytest.raises(ValueError, match="only one class, 'ant'; expected two or more"):
    prepare_labels(["ant"] * 3)


def test_classes_of_one_image_are_reported(source, data_dir, caplog):
  archives.folder(source)
  archives.write_image(source / "cat/0.jpg", 90)
  archives.write_image(source / "dog/0.jpg", 91)
  data.prepare("folder", source, data_dir)
  (message,) = caplog.messages
  assert message == (
    "2 classes have a single image each, so they appear either in training or in "
    "testing, not both: cat, dog"
  )


def test_a_class_of_one_image_is_reported(source, data_dir, caplog):
  archives.folder(source)
  archives.write_image(source / "cat/0.jpg", 90)
  data.prepare("folder", source, data_dir)
  (message,) = caplog.messages
  assert message == (
    "class cat has a single image, so it appears either in training or in testing, not "
    "both"
  )


def test_a_source_without_images_to_evaluate_on_is_reported(source, data_dir, caplog):
  archives.folder(source / "train")
  data.prepare("folder", source, data_dir)
  (message,) = caplog.messages
  assert message == (
    "there are no images to evaluate on: add a folder (or lines of the CSV file) for "
    "test or validation, or train with --config.dataset.fold=1/5"
  )


def test_copies_are_reported(source, data_dir, caplog):
  archives.folder(source / "train")
  archives.folder(source / "test", per_class=1)
  archives.write_image(source / "test/ant/0.jpg", 77)
  archives.write_image(source / "test/bee/0.jpg", 78)
  archives.write_image(source / "train/bee/copy.jpg", 7)
  data.prepare("folder", source, data_dir)
  (message,) = caplog.messages
  assert message == (
    "1 image is a copy of another, such as train/bee/copy.jpg (bee) and "
    "train/bee/2.jpg (bee)"
  )


def test_copies_in_another_class_are_reported(source, data_dir, caplog):
  archives.folder(source)
  archives.write_image(source / "bee/copy.jpg", 0)
  data.prepare("folder", source, data_dir)
  expected = "1 copy is in another class than the first, such as bee/copy.jpg (bee)"
  assert f"{expected} and ant/0.jpg (ant)" in caplog.text


def test_copies_across_splits_are_reported(source, data_dir, caplog):
  archives.folder(source / "train")
  archives.folder(source / "validation", per_class=1)
  archives.folder(source / "test", per_class=2)
  data.prepare("folder", source, data_dir)
  assert "2 images of validation are also in train, such as" in caplog.text
  assert (
    "4 images of test are also in train, such as test/ant/0.jpg (ant) and "
    "train/ant/0.jpg (ant)"
  ) in caplog.text
  assert "2 images of test are also in validation" in caplog.text


def test_images_of_official_lists_are_no_copies_of_themselves(source, data_dir, caplog):
  """Lists of mit67 share images by design."""
  archives.mit67(source)
  data.prepare("mit67", source, data_dir)
  assert caplog.messages == []


def test_unreadable_images_are_one_line(source, data_dir):
  archives.folder(source)
  (source / "ant/0.jpg").unlink()
  (source / "ant/0.jpg").symlink_to(source / "nowhere.jpg")
  (source / "ant/1.jpg").unlink()
  (source / "ant/1.jpg").mkdir()
  with pytest.raises(OSError, match=r"^2 of 10 images cannot .*No such file") as error:
    data.prepare("folder", source, data_dir)
  assert str(source / "ant/0.jpg") in str(error.value)
  assert str(error.value).endswith(". Nothing was prepared.")
  assert "\n" not in str(error.value)


def test_permission_denied_is_one_line(source, data_dir, monkeypatch):
  """As the tests may run as root, for whom everything is readable."""
  archives.folder(source)

  def deny(image):
    raise PermissionError(13, "Permission denied", str(image))

  monkeypatch.setattr(_archive.ImageFile, "read", deny)
  with pytest.raises(OSError, match=r"^10 of 10 images cannot .* Permission denied"):
    data.prepare("folder", source, data_dir)


def test_an_image_that_does_not_fit_into_memory_is_one_line(
  source, data_dir, monkeypatch
):
  archives.folder(source)
  monkeypatch.setattr(_archive.ImageFile, "read", lambda image: bytes(1 << 62))
  with pytest.raises(OSError, match=r"^10 of 10 images .*/0.jpg does not fit into mem"):
    data.prepare("folder", source, data_dir)


def test_a_pipe_is_not_waited_for(source, data_dir):
  archives.folder(source)
  (source / "ant/0.jpg").unlink()
  os.mkfifo(source / "ant/0.jpg")
  with pytest.raises(OSError, match=r"ant/0.jpg is a folder, a pipe or a device, exp"):
    data.prepare("folder", source, data_dir)

  with pytest.raises(OSError, match="is a folder, a pipe or a device, expected a file"):
    data.decode(source / "ant/0.jpg")


def test_an_endless_device_is_not_read(source, data_dir):
  archives.folder(source)
  (source / "ant/0.jpg").unlink()
  (source / "ant/0.jpg").symlink_to("/dev/zero")
  with pytest.raises(OSError, match=r"ant/0.jpg is a folder, a pipe or a device, exp"):
    data.prepare("folder", source, data_dir)


def test_a_huge_file_is_not_read(source, data_dir):
  archives.folder(source)
  with open(source / "ant/0.jpg", "wb") as file:
    file.truncate(_archive.MAX_BYTES + 1)  # Takes no space.
  with pytest.raises(OSError, match="1073741825 bytes, expected at most 1073741824"):
    data.prepare("folder", source, data_dir)
