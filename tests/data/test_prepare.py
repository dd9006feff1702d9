import dataclasses
import logging
import signal
import subprocess
import sys

import pytest

from pnjax import data
from pnjax.data import _builder
from pnjax.data import _layouts
from pnjax.data import _prepare
from tests.data import archives


@pytest.fixture
def source(source):
  """Class folders with ten images."""
  archives.folder(source)
  return source


def test_broken_images_are_all_listed(source, data_dir):
  intact = (source / "ant/0.jpg").read_bytes()
  (source / "ant/1.jpg").write_bytes(intact[: len(intact) // 2])
  (source / "bee/3.jpg").write_bytes(b"")
  (source / "bee/4.jpg").write_text("<html>404</html>")
  with pytest.raises(ValueError, match="3 of 10 images are broken") as error:
    data.prepare("folder", source, data_dir)
  assert "broken; replace or delete them. Nothing was prepared." in str(error.value)
  for file in ("ant/1.jpg", "bee/3.jpg", "bee/4.jpg"):
    assert str(source / file) in str(error.value)
  assert str(source / "ant/0.jpg") not in str(error.value)
  with pytest.raises(FileNotFoundError):
    data.open_split("folder", "train", data_dir)


def test_the_same_images_are_not_prepared_again(source, data_dir, caplog):
  folder = data.prepare("folder", source, data_dir)
  before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
  with caplog.at_level(logging.INFO, logger="pnjax"):
    assert data.prepare("folder", source, data_dir) == folder
  assert "folder is already prepared from the same images" in caplog.text
  assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_the_source_may_move(source, data_dir):
  folder = data.prepare("folder", source, data_dir)
  source = source.rename(source.with_name("elsewhere"))
  assert data.prepare("folder", source, data_dir) == folder


def test_data_of_earlier_versions_count_as_prepared(
  tmp_path, data_dir, monkeypatch, caplog
):
  """They store the same images under another name."""
  archives.fmd(tmp_path / "fmd", _layouts.FMD_CLASSES, per_class=2)

  def read_as_before(source):
    archive = _layouts.read_fmd(source)
    return dataclasses.replace(archive, stored={"earlier_name": archive.images})

  with monkeypatch.context() as patch:
    patch.setitem(_prepare._READERS, "fmd", read_as_before)
    folder = data.prepare("fmd", tmp_path / "fmd", data_dir)
  with caplog.at_level(logging.INFO, logger="pnjax"):
    data.prepare("fmd", tmp_path / "fmd", data_dir)
  assert "fmd is already prepared" in caplog.text
  assert any("earlier_name" in path.name for path in folder.iterdir())
  split = data.open_split("fmd", "half_1_train", data_dir)
  assert split.labels.tolist() == list(range(10))
  assert [example["label"] for example in split] == split.labels.tolist()


@pytest.mark.parametrize("change", ["one more", "other pixels", "other name"])
def test_other_images_are_an_error_until_overwritten(source, data_dir, change):
  data.prepare("folder", source, data_dir)
  before = data.open_split("folder", "all", data_dir)
  if change == "one more":
    archives.write_image(source / "bee/9.jpg", 99)
  elif change == "other pixels":
    archives.write_image(source / "bee/4.jpg", 99)
  else:
    (source / "bee/4.jpg").rename(source / "bee/5.jpg")
  with pytest.raises(FileExistsError, match="overwrite=True"):
    data.prepare("folder", source, data_dir)
  unchanged = data.open_split("folder", "all", data_dir)
  assert unchanged.fingerprint == before.fingerprint
  data.prepare("folder", source, data_dir, overwrite=True)
  after = {e["file"]: e["image"] for e in data.open_split("folder", "all", data_dir)}
  assert after == {
    path.relative_to(source).as_posix(): path.read_bytes()
    for path in source.glob("*/*")
  }


def test_images_are_checked_again(source, data_dir):
  data.prepare("folder", source, data_dir)
  (source / "ant/1.jpg").write_bytes(b"broken")
  with pytest.raises(ValueError, match="1 of 10 images is broken"):
    data.prepare("folder", source, data_dir, overwrite=True)
  assert len(data.open_split("folder", "all", data_dir)) == 10


def test_a_killed_preparation_leaves_nothing(source, data_dir):
  """The process kills itself after writing some of the images."""
  script = f"""
import os, signal
from pnjax import data
from pnjax.data import _archive
read, count = _archive.ImageFile.read, 0
def read_some(image):
  global count
  count += 1
  if count == 17:  # Ten are checked first.
    os.kill(os.getpid(), signal.SIGKILL)
  return read(image)
_archive.ImageFile.read = read_some
data.prepare("folder", {str(source)!r}, {str(data_dir)!r})
"""
  process = subprocess.run([sys.executable, "-c", script], check=False)
  assert process.returncode == -signal.SIGKILL
  assert list(data_dir.iterdir())  # It had begun to write.
  with pytest.raises(FileNotFoundError):
    data.open_split("folder", "train", data_dir)
  data.prepare("folder", source, data_dir)
  assert len(data.open_split("folder", "all", data_dir)) == 10


def test_another_machine_may_finish_first(source, data_dir, monkeypatch):
  """The lock is that of this machine."""
  download_and_prepare = _builder.Builder.download_and_prepare

  def lose(builder):
    monkeypatch.undo()
    other = data.prepare("folder", source, data_dir.with_name("other"))
    other.rename(_prepare.prepared_folder("folder", data_dir))
    download_and_prepare(builder)

  monkeypatch.setattr(_builder.Builder, "download_and_prepare", lose)
  folder = data.prepare("folder", source, data_dir)
  assert len(data.open_split("folder", "all", data_dir)) == 10
  assert [path.name for path in data_dir.iterdir()] == [folder.parents[1].name]


@pytest.mark.parametrize(
  ("arguments", "error", "message"),
  [
    ({"name": "cifar"}, ValueError, "'cifar', expected one of flower102"),
    (
      {"name": "fmd"},
      FileNotFoundError,
      "`source` is None, .* that fmd unpacks to",
    ),
    ({"name": "fmd", "source": "/nowhere"}, FileNotFoundError, "`source` is /nowhere"),
    ({"name": "textures", "source": "/"}, ValueError, "textures are synthetic"),
    ({"name": "folder", "splits": "/"}, ValueError, "expected None: only fmd"),
  ],
)
def test_wrong_arguments(arguments, error, message, data_dir):
  with pytest.raises(error, match=message):
    data.prepare(data_dir=data_dir, **arguments)


def test_nothing_imports_tensorflow(source, data_dir):
  """Nor does `import pnjax` load the dependencies of `pnjax.data`."""
  script = f"""
import sys
import pnjax
assert not {{"tensorflow_datasets", "grain", "cv2"}} & set(sys.modules)
from pnjax import data
data.prepare("folder", {str(source)!r}, {str(data_dir)!r})
split = data.open_split("folder", "train", {str(data_dir)!r})
next(iter(data.train_batches(split, batch_size=2, image_size=8, seed=0)))
assert "tensorflow" not in sys.modules
"""
  subprocess.run([sys.executable, "-W", "error", "-c", script], check=True)
