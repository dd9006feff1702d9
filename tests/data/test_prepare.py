import logging
import signal
import subprocess
import sys

import pytest

from pnjax import data
from pnjax.data import _prepare
from tests.data import archives


@pytest.fixture
def source(tmp_path):
  folder = tmp_path / "source"
  archives.folder(folder)
  return folder


@pytest.fixture
def data_dir(tmp_path):
  return tmp_path / "data"


def test_all_broken_pictures_are_listed_and_nothing_is_prepared(source, data_dir):
  whole = (source / "ant/0.jpg").read_bytes()
  (source / "ant/1.jpg").write_bytes(whole[: len(whole) // 2])
  (source / "bee/3.jpg").write_bytes(b"")
  (source / "bee/4.jpg").write_text("<html>404</html>")
  with pytest.raises(ValueError, match="3 of 10 pictures are broken") as error:
    data.prepare("folder", source, data_dir)
  for file in ("ant/1.jpg", "bee/3.jpg", "bee/4.jpg"):
    assert str(source / file) in str(error.value)
  assert str(source / "ant/0.jpg") not in str(error.value)
  with pytest.raises(FileNotFoundError):
    data.open_split("folder", "train", data_dir)


def test_preparing_again_says_so(source, data_dir, caplog):
  folder = data.prepare("folder", source, data_dir)
  before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
  with caplog.at_level(logging.INFO, logger="pnjax"):
    assert data.prepare("folder", source, data_dir) == folder
  assert "folder is prepared already" in caplog.text
  assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_the_same_pictures_elsewhere_are_the_same(source, data_dir):
  folder = data.prepare("folder", source, data_dir)
  source = source.rename(source.with_name("elsewhere"))
  assert data.prepare("folder", source, data_dir) == folder


@pytest.mark.parametrize("change", ["one more", "other pixels", "other name"])
def test_other_pictures_are_an_error_until_overwritten(source, data_dir, change):
  data.prepare("folder", source, data_dir)
  before = data.open_split("folder", "all", data_dir)
  if change == "one more":
    archives.write_picture(source / "bee/9.jpg", 99)
  elif change == "other pixels":
    archives.write_picture(source / "bee/4.jpg", 99)
  else:
    (source / "bee/4.jpg").rename(source / "bee/5.jpg")
  with pytest.raises(FileExistsError, match="overwrite=True"):
    data.prepare("folder", source, data_dir)
  assert len(data.open_split("folder", "all", data_dir)) == len(before)
  data.prepare("folder", source, data_dir, overwrite=True)
  after = {e["file"] for e in data.open_split("folder", "all", data_dir)}
  assert after == {p.relative_to(source).as_posix() for p in source.glob("*/*")}


def test_a_picture_broken_since_is_found(source, data_dir):
  data.prepare("folder", source, data_dir)
  (source / "ant/1.jpg").write_bytes(b"broken")
  with pytest.raises(ValueError, match="1 of 10 pictures are broken"):
    data.prepare("folder", source, data_dir, overwrite=True)
  assert len(data.open_split("folder", "all", data_dir)) == 10


def test_a_killed_preparation_leaves_nothing(source, data_dir):
  """The process kills itself after it wrote some of the pictures."""
  script = f"""
import os, signal
from pnjax import data
from pnjax.data import _archives
read, count = _archives.Picture.read, 0
def read_some(picture):
  global count
  count += 1
  if count == 17:  # Ten are checked first.
    os.kill(os.getpid(), signal.SIGKILL)
  return read(picture)
_archives.Picture.read = read_some
data.prepare("folder", {str(source)!r}, {str(data_dir)!r})
"""
  process = subprocess.run([sys.executable, "-c", script], check=False)
  assert process.returncode == -signal.SIGKILL
  assert list(data_dir.iterdir())  # It had begun to write.
  with pytest.raises(FileNotFoundError):
    data.open_split("folder", "train", data_dir)
  data.prepare("folder", source, data_dir)
  assert len(data.open_split("folder", "all", data_dir)) == 10


def test_another_process_may_be_quicker(source, data_dir, monkeypatch):
  download_and_prepare = _prepare.Builder.download_and_prepare

  def lose(builder):
    monkeypatch.undo()
    data.prepare("folder", source, data_dir)
    download_and_prepare(builder)

  monkeypatch.setattr(_prepare.Builder, "download_and_prepare", lose)
  folder = data.prepare("folder", source, data_dir)
  assert len(data.open_split("folder", "all", data_dir)) == 10
  assert [path.name for path in data_dir.iterdir()] == [folder.parents[1].name]


@pytest.mark.parametrize(
  ("arguments", "error", "message"),
  [
    ({"name": "cifar"}, ValueError, "'cifar', expected one of flower102"),
    ({"name": "fmd"}, FileNotFoundError, "`source` is None, expected a folder"),
    ({"name": "fmd", "source": "/nowhere"}, FileNotFoundError, "/nowhere"),
    ({"name": "textures", "source": "/"}, ValueError, "textures are made"),
    ({"name": "folder", "splits": "/"}, ValueError, "only fmd"),
  ],
)
def test_wrong_arguments(arguments, error, message, data_dir):
  with pytest.raises(error, match=message):
    data.prepare(data_dir=data_dir, **arguments)


def test_nothing_imports_tensorflow(source, data_dir):
  """Nor does `import pnjax` load what only `pnjax.data` needs."""
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
