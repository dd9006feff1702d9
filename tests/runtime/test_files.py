import json
import os

import pytest

from pnjax import runtime
from pnjax.runtime import _files
from tests.small_disks import small_disk


def test_a_file_is_replaced_as_a_whole(tmp_path, monkeypatch):
  path = tmp_path / "file.json"
  runtime.write_json(path, {"a": 1})

  def fail(_):
    raise OSError(28, "No space left on device")

  with monkeypatch.context() as patch:
    patch.setattr(_files.os, "fsync", fail)
    with pytest.raises(OSError, match=r"file\.json cannot be written: No space left"):
      runtime.write_json(path, {"a": 2})
  assert json.loads(path.read_text()) == {"a": 1}
  assert os.listdir(tmp_path) == ["file.json"]


def test_a_folder_is_made_for_files(tmp_path):
  folder = tmp_path / "a" / "b"
  runtime.make_writable(folder, "the cache", "choose another one")
  assert os.listdir(folder) == []


def test_a_folder_that_cannot_be_made(tmp_path):
  (tmp_path / "file").write_text("")
  expected = r"^the cache \S*file is a file, expected a folder; choose another one\.$"
  with pytest.raises(OSError, match=expected):
    runtime.make_writable(tmp_path / "file", "the cache", "choose another one")
  expected = r"^the cache \S*file/a cannot be .*: Not a directory; choose another"
  with pytest.raises(OSError, match=expected):
    runtime.make_writable(tmp_path / "file" / "a", "the cache", "choose another one")


def test_a_file_on_a_full_disk(tmp_path):
  with small_disk(tmp_path):
    with pytest.raises(OSError, match=r"a\.txt cannot be written: No space left"):
      runtime.write_text(tmp_path / "a.txt", "x" * 2**23)
    assert os.listdir(tmp_path) == []


def test_a_file_on_a_read_only_disk(tmp_path):
  with small_disk(tmp_path) as remount_read_only:
    runtime.write_text(tmp_path / "a.txt", "before")
    remount_read_only()
    with pytest.raises(OSError, match=r"a\.txt cannot be written: Read-only file sys"):
      runtime.write_text(tmp_path / "a.txt", "after")
    assert (tmp_path / "a.txt").read_text() == "before"


def test_a_file_in_a_folder_that_vanished(tmp_path):
  with pytest.raises(FileNotFoundError, match=r"a\.txt cannot be written: No such"):
    runtime.write_text(tmp_path / "gone" / "a.txt", "text")


def test_a_damaged_file_is_named(tmp_path):
  (tmp_path / "a.json").write_bytes(b"{\xff")
  with pytest.raises(ValueError, match=r"a\.json is damaged: "):
    runtime.read_json(tmp_path / "a.json")


def test_a_disk_without_locks(tmp_path, monkeypatch):
  def fail(*_):
    raise OSError(37, "No locks available")

  monkeypatch.setattr("fcntl.flock", fail)
  with (
    pytest.raises(OSError, match="cannot be locked: No locks available"),
    runtime.lock_folder(tmp_path),
  ):
    pass


def test_temporary_folders_are_removed(tmp_path):
  with runtime.temporary_folder(tmp_path, ".new.") as folder:
    assert folder.parent == tmp_path
    assert folder.name.startswith(".new.")
    (folder / "half").write_text("half")
  assert os.listdir(tmp_path) == []
  with runtime.temporary_folder(tmp_path) as folder:
    runtime.remove_temporary_folders()
    assert os.listdir(tmp_path) == []
