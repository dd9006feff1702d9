"""Full, read-only and vanished disks, and preparations at the same time."""

import errno
import logging
import pathlib
import shutil
import subprocess
import sys
import threading

import pytest

from pnjax import data
from pnjax import runtime
from pnjax.data import _archive
from pnjax.data import _builder
from pnjax.data import _prepare
from tests.data import archives


@pytest.fixture
def source(source):
  """Class folders with ten images."""
  archives.folder(source)
  return source


def fail(*args, **kwargs):
  raise OSError(errno.ENOSPC, "No space left on device")


def mount(folder, *options):
  folder.mkdir(exist_ok=True)
  command = ["mount", "-t", "tmpfs", *options, "tmpfs", folder]
  if shutil.which("mount") is None or subprocess.run(command, check=False).returncode:
    pytest.skip("only root may mount a disk")


@pytest.fixture
def small_disk(tmp_path):
  """A disk with space for an empty dataset."""
  folder = tmp_path / "disk"
  mount(folder, "-o", "size=320k")
  yield folder
  subprocess.run(["umount", folder], check=True)


def remount(folder, option):
  command = ["mount", "-o", f"remount,{option}", folder]
  subprocess.run(command, check=True)


def test_a_full_disk_is_one_line_and_leaves_nothing(source, data_dir, monkeypatch):
  monkeypatch.setattr(_builder.Builder, "download_and_prepare", fail)
  expected = rf"^folder cannot be written to {data_dir} \(.*No space left.*starts again"
  with pytest.raises(OSError, match=expected):
    data.prepare("folder", source, data_dir)
  assert [path.name for path in data_dir.iterdir()] == ["pnjax"]
  with pytest.raises(FileNotFoundError):
    data.open_split("folder", "all", data_dir)
  monkeypatch.undo()
  data.prepare("folder", source, data_dir)
  assert len(data.open_split("folder", "all", data_dir)) == 10


def test_a_full_disk_keeps_the_dataset_to_be_replaced(source, data_dir, monkeypatch):
  data.prepare("folder", source, data_dir)
  archives.write_image(source / "ant/9.jpg", 99)
  monkeypatch.setattr(_builder.Builder, "download_and_prepare", fail)
  with pytest.raises(OSError, match="nothing was prepared or replaced"):
    data.prepare("folder", source, data_dir, overwrite=True)
  assert len(data.open_split("folder", "all", data_dir)) == 10


def test_records_that_were_not_written_whole_are_noticed(source, data_dir, monkeypatch):
  """As on a disk that loses what was written to it."""
  download_and_prepare = _builder.Builder.download_and_prepare

  def lose(builder):
    download_and_prepare(builder)
    path = next(pathlib.Path(builder.data_path).glob("*train.array_record*"))
    path.write_bytes(path.read_bytes()[:70_000])

  monkeypatch.setattr(_builder.Builder, "download_and_prepare", lose)
  with pytest.raises(OSError, match=r"^folder cannot be written to .*is damaged"):
    data.prepare("folder", source, data_dir)
  with pytest.raises(FileNotFoundError):
    data.open_split("folder", "all", data_dir)


@pytest.mark.slow
def test_a_disk_without_space_is_one_line(small_disk, source):
  for i in range(10):
    archives.write_image(source / f"ant/large_{i}.jpg", 100 + i, (900, 900))
  with pytest.raises(OSError, match=r"^folder cannot be written .*No space") as raised:
    data.prepare("folder", source, small_disk)
  assert "\n" not in str(raised.value)
  assert not list(small_disk.rglob("*array_record*"))
  remount(small_disk, "size=8m")
  data.prepare("folder", source, small_disk)
  assert len(data.open_split("folder", "all", small_disk)) == 20


@pytest.mark.slow
def test_a_read_only_disk_is_one_line(small_disk, source):
  remount(small_disk, "ro")
  expected = r"^\S*/pnjax/folder cannot be made \(Read-only.*\$TFDS_DATA_DIR"
  with pytest.raises(OSError, match=expected):
    data.prepare("folder", source, small_disk)


@pytest.mark.slow
def test_a_dataset_on_a_read_only_disk_is_used(small_disk, source, caplog):
  remount(small_disk, "size=8m")
  data.prepare("folder", source, small_disk)
  remount(small_disk, "ro")
  with caplog.at_level(logging.INFO, logger="pnjax"):
    data.prepare("folder", source, small_disk)
  assert "already prepared" in caplog.text
  assert len(data.open_split("folder", "all", small_disk)) == 10
  archives.write_image(source / "ant/9.jpg", 99)
  with pytest.raises(OSError, match=r"^folder cannot be written to .*Read-only"):
    data.prepare("folder", source, small_disk, overwrite=True)


def test_a_data_dir_that_is_a_file_is_one_line(source, data_dir):
  data_dir.write_text("not a folder")
  expected = r"cannot be made \(Not a directory\); .* by \$TFDS_DATA_DIR, --data_dir"
  with pytest.raises(OSError, match=expected):
    data.prepare("folder", source, data_dir)


def test_a_source_that_vanishes_when_checked_is_one_line(source, data_dir, monkeypatch):
  read = _archive.ImageFile.read

  def vanish(image):
    shutil.rmtree(source, ignore_errors=True)
    return read(image)

  monkeypatch.setattr(_archive.ImageFile, "read", vanish)
  with pytest.raises(OSError, match=r"^\d+ of 10 images cannot be read, .*No such"):
    data.prepare("folder", source, data_dir)


def test_a_source_that_vanishes_when_written_is_one_line(source, data_dir, monkeypatch):
  generate = _builder.Builder._generate_examples

  def vanish(builder, images, digests):
    for i, example in enumerate(generate(builder, images, digests)):
      yield example
      if i == 1:
        source.rename(source.with_name("elsewhere"))

  monkeypatch.setattr(_builder.Builder, "_generate_examples", vanish)
  with pytest.raises(OSError, match=r"^folder cannot be written .*No such") as raised:
    data.prepare("folder", source, data_dir)
  assert "\n" not in str(raised.value)
  monkeypatch.undo()
  data.prepare("folder", source.with_name("elsewhere"), data_dir)
  assert len(data.open_split("folder", "all", data_dir)) == 10


def test_an_image_that_changes_after_it_was_checked_is_noticed(
  source, data_dir, monkeypatch
):
  download_and_prepare = _builder.Builder.download_and_prepare

  def change(builder):
    archives.write_image(source / "ant/0.jpg", 99)
    download_and_prepare(builder)

  monkeypatch.setattr(_builder.Builder, "download_and_prepare", change)
  with pytest.raises(OSError, match=r"^folder cannot .*ant/0.jpg has changed since it"):
    data.prepare("folder", source, data_dir)


def test_a_second_preparation_waits_for_the_first(source, data_dir, caplog):
  folder = _prepare.prepared_folder("folder", data_dir)
  folder.parent.mkdir(parents=True)
  second = threading.Thread(target=data.prepare, args=("folder", source, data_dir))
  with caplog.at_level(logging.INFO, logger="pnjax"):
    with runtime.lock_folder(folder.parent):
      second.start()
      second.join(0.5)
      assert second.is_alive()
      assert not folder.exists()
    second.join(60)
  assert caplog.messages == [
    f"waiting for another process, which is writing to {folder.parent}",
    "10 images in 2 classes: train 8, test 2",
  ]
  assert len(data.open_split("folder", "all", data_dir)) == 10


@pytest.mark.slow
def test_two_processes_prepare_one_dataset(source, data_dir):
  for i in range(200):
    archives.write_image(source / f"ant/more_{i}.jpg", 100 + i)
  command = [sys.executable, "-m", "experiments.prepare", "folder"]
  command += [f"--source={source}", f"--data_dir={data_dir}"]
  processes = [
    subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)
  ]
  outputs = [process.communicate(timeout=300)[0] for process in processes]
  assert [process.returncode for process in processes] == [0, 0]
  assert sum("already prepared" in output for output in outputs) == 1
  assert len(data.open_split("folder", "all", data_dir)) == 210
