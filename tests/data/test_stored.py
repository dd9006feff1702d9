"""Damage of prepared datasets is found when they are opened or prepared again."""

import json
import logging
import pathlib
import shutil

import pytest

from pnjax import data
from pnjax.data import _prepare
from pnjax.data import _stored
from tests.data import archives

DESCRIPTIONS = ("dataset_info.json", "features.json", "metadata.json")
FILES = (*DESCRIPTIONS, "label.labels.txt")


@pytest.fixture(scope="module")
def intact(tmp_path_factory):
  """A source of 4 images in 2 classes, and what was prepared from it."""
  root = tmp_path_factory.mktemp("intact")
  archives.folder(root / "source", per_class=2)
  data.prepare("folder", root / "source", root / "data")
  return root


@pytest.fixture
def folder(intact, tmp_path):
  """The folder of a copy of the prepared dataset, which tests damage."""
  shutil.copytree(intact / "data", tmp_path / "data")
  return _prepare.prepared_folder("folder", tmp_path / "data")


def open_all(folder):
  return data.open_split("folder", "all", folder.parents[2])


def prepare_again(intact, folder):
  return data.prepare("folder", intact / "source", folder.parents[2])


def assert_refused(folder, reason):
  with pytest.raises(OSError) as raised:
    open_all(folder)
  message = str(raised.value)
  assert message.startswith(f"{folder} is damaged (")
  assert message.endswith("; delete it and prepare folder again.")
  assert reason in message
  assert "\n" not in message


def record_file(folder):
  return next(folder.glob("*train.array_record*"))


def change_bytes(path, start=1000):
  content = bytearray(path.read_bytes())
  for i in range(start, start + 100):
    content[i] ^= 0xFF
  path.write_bytes(content)


def change_metadata(folder, **changes):
  metadata = json.loads((folder / "metadata.json").read_text())
  (folder / "metadata.json").write_text(json.dumps(metadata | changes))


def test_a_missing_record_file_is_refused_when_opened(folder):
  record_file(folder).unlink()
  assert_refused(folder, "No such file")


@pytest.mark.parametrize("size", [0, 500, 65536])
def test_a_truncated_record_file_is_refused_when_opened(folder, size):
  path = record_file(folder)
  path.write_bytes(path.read_bytes()[:size])
  assert_refused(folder, "")


@pytest.mark.parametrize("file", FILES)
def test_a_missing_description_is_refused(folder, file):
  (folder / file).unlink()
  assert_refused(folder, file)


@pytest.mark.parametrize("file", FILES)
def test_a_truncated_description_is_refused(folder, file):
  content = (folder / file).read_bytes()
  (folder / file).write_bytes(content[: len(content) // 2])
  assert_refused(folder, file)


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b"\xff\xfe\0"])
@pytest.mark.parametrize("file", DESCRIPTIONS)
def test_another_content_of_a_description_is_refused(folder, file, content):
  (folder / file).write_bytes(content)
  assert_refused(folder, "")


def test_classes_that_were_edited_are_refused(folder):
  (folder / "label.labels.txt").write_text("ant\nwasp\n")
  assert_refused(folder, "label.labels.txt are not those of its metadata")


def test_classes_of_earlier_versions_are_counted(folder):
  metadata = json.loads((folder / "metadata.json").read_text())
  del metadata["class_names"]
  (folder / "metadata.json").write_text(json.dumps(metadata))
  assert open_all(folder).class_names == ("ant", "bee")
  (folder / "label.labels.txt").write_text("ant\n")
  assert_refused(folder, "label.labels.txt has 1 class, expected 2")


@pytest.mark.parametrize(
  ("changes", "reason"),
  [
    ({"labels": [0, 1, 0]}, "4 records, 3 labels and 4 digests"),
    ({"labels": [0, 1, 0, 2]}, "labels in its metadata are not all below 2"),
    ({"labels": [0, 1, 0, 0.5]}, "labels in its metadata are not a list of integers"),
    ({"labels": [[0, 1], [0]]}, "inhomogeneous"),
    ({"digests": [1, 2, 3, 4]}, "metadata.json has digests that are not text"),
    ({"splits": {"train": [4]}}, "train in its metadata are not all below 4"),
    ({"splits": {"train": [-1]}}, "train in its metadata are not all below 4"),
    ({"splits": {"train": "all"}}, "train in its metadata are not a list of integers"),
    ({"stored": ["trian", "test"]}, "trian"),
  ],
)
def test_metadata_that_contradict_the_records_are_refused(folder, changes, reason):
  change_metadata(folder, **changes)
  assert_refused(folder, reason)


def test_a_changed_record_is_refused_when_read(folder):
  split = open_all(folder)
  change_bytes(record_file(folder))
  with pytest.raises(OSError, match=r"is damaged \(.*; delete it and prepare folder"):
    list(split)


@pytest.mark.parametrize("name", ["train", "eval"])
def test_a_changed_record_is_one_line_in_batches(folder, name):
  split = open_all(folder)
  change_bytes(record_file(folder))
  with pytest.raises(OSError, match=r"is damaged \(") as raised:
    read_batches(split, name)
  assert str(folder) in str(raised.value)
  assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["train", "eval"])
def test_an_image_that_no_longer_decodes_is_one_line_in_batches(
  intact, folder, name, monkeypatch
):
  """As when another version of Pillow refuses what an earlier one accepted."""
  split = open_all(folder)

  def refuse(content):
    raise ValueError("the image cannot be decoded: for a test")

  monkeypatch.setattr(data._pipeline, "decode_prepared", refuse)
  expected = rf"^{folder} is damaged \(\w+/\d.jpg: the image cannot be decoded"
  with pytest.raises(OSError, match=expected) as raised:
    read_batches(split, name)
  assert "\n" not in str(raised.value)


def read_batches(split, name):
  options = {"batch_size": 2, "image_size": 8}
  if name == "train":
    batches = iter(data.train_batches(split, seed=0, **options))
    return [next(batches) for _ in range(4)]
  return list(data.eval_batches(split, **options))


@pytest.mark.parametrize(
  "damage",
  [
    pathlib.Path.unlink,
    lambda path: path.write_bytes(path.read_bytes()[:500]),
    change_bytes,
  ],
  ids=["missing", "truncated", "changed"],
)
def test_damaged_records_are_prepared_again(intact, folder, damage, caplog):
  expected = open_all(folder).fingerprint
  damage(record_file(folder))
  with caplog.at_level(logging.INFO, logger="pnjax"):
    assert prepare_again(intact, folder) == folder
  assert f"{folder} is damaged (" in caplog.text
  assert "so it is prepared again" in caplog.text
  assert "already prepared" not in caplog.text
  assert open_all(folder).fingerprint == expected
  _stored.check_records("folder", folder)


@pytest.mark.parametrize("file", FILES)
def test_a_damaged_description_is_prepared_again(intact, folder, file, caplog):
  (folder / file).write_text("{")
  prepare_again(intact, folder)
  assert "is damaged" in caplog.text
  assert len(open_all(folder)) == 4


def test_records_of_other_images_are_prepared_again(intact, folder, tmp_path, caplog):
  """The files are whole, but not those that the metadata describe."""
  archives.folder(tmp_path / "other", per_class=2)
  archives.write_image(tmp_path / "other/ant/0.jpg", 99)
  other = data.prepare("folder", tmp_path / "other", tmp_path / "other_data")
  for path in other.glob("*array_record*"):
    shutil.copy(path, folder)
  prepare_again(intact, folder)
  assert "its records are not those that its metadata describe" in caplog.text
  assert {e["image"] for e in open_all(folder)} == {
    path.read_bytes() for path in (intact / "source").glob("*/*")
  }


def test_damage_does_not_let_other_images_replace_a_dataset(folder, tmp_path):
  record_file(folder).unlink()
  archives.folder(tmp_path / "other", per_class=3)
  with pytest.raises(FileExistsError, match="4 images there, 6 in"):
    data.prepare("folder", tmp_path / "other", folder.parents[2])
