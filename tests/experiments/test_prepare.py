import logging
import pathlib
import runpy
import shutil
import subprocess
import sys

import pytest

from experiments import prepare
from pnjax import data
from pnjax.data import _downloads
from pnjax.data import _layouts
from tests import small_runs
from tests.data import archives


def run(tmp_path, dataset, *arguments):
  return prepare.main(
    [
      dataset,
      f"--data_dir={tmp_path / 'data'}",
      f"--downloads={tmp_path / 'downloads'}",
      *arguments,
    ]
  )


@pytest.fixture(autouse=True)
def usual_logging():
  """The command sets up logging for its process."""
  root, own = logging.getLogger(), logging.getLogger("pnjax")
  handlers, level, own_level = root.handlers[:], root.level, own.level
  yield
  root.handlers[:] = handlers
  root.setLevel(level)
  own.setLevel(own_level)


def offer(monkeypatch, *files):
  """Makes files the official archive of Flower102."""
  remote = tuple(_downloads.RemoteFile(file.as_uri()) for file in files)
  monkeypatch.setitem(_downloads.OFFICIAL_ARCHIVES, "flower102", remote)


def test_it_prepares_a_source_and_prints_what_it_has(tmp_path, capsys):
  archives.folder(tmp_path / "source")
  assert run(tmp_path, "folder", f"--source={tmp_path / 'source'}") == 0
  captured = capsys.readouterr()
  summary, folder = captured.out.splitlines()
  assert summary == "10 images in 2 classes: train 8, test 2"
  assert pathlib.Path(folder).is_dir()
  assert captured.err == ""  # Progress bars are for terminals.
  assert len(data.open_split("folder", "all", tmp_path / "data")) == 10
  assert run(tmp_path, "folder", f"--source={tmp_path / 'source'}") == 0
  lines = capsys.readouterr().out.splitlines()
  assert lines[0].startswith("folder is already prepared")
  assert lines[1:] == [summary, folder]


def test_a_summary_names_a_few_of_many_splits(tmp_path, capsys):
  archives.fmd(tmp_path / "source", _layouts.FMD_CLASSES, per_class=2)
  assert run(tmp_path, "fmd", f"--source={tmp_path / 'source'}") == 0
  *_, summary, _ = capsys.readouterr().out.splitlines()
  splits = "half_1_train 10, half_1_test 10, half_2_train 10, half_2_test 10"
  assert summary == f"20 images in 10 classes: {splits}, … and 36 more splits"


def test_mistakes_are_one_line(tmp_path, capsys):
  assert run(tmp_path, "folder", f"--source={tmp_path / 'nowhere'}") == 1
  (line,) = capsys.readouterr().err.splitlines()
  assert line.startswith("error: `source` is")


def test_other_images_need_overwrite(tmp_path, capsys):
  source = f"--source={tmp_path / 'source'}"
  archives.folder(tmp_path / "source")
  assert run(tmp_path, "folder", source) == 0
  archives.write_image(tmp_path / "source/ant/new.jpg", 99)
  assert run(tmp_path, "folder", source) == 1
  assert "--overwrite" in capsys.readouterr().err
  assert run(tmp_path, "folder", source, "--overwrite") == 0
  assert len(data.open_split("folder", "all", tmp_path / "data")) == 11


def test_without_a_source_it_downloads_the_archive(tmp_path, monkeypatch):
  server = tmp_path / "server"
  server.mkdir()
  archives.flower102(server)
  shutil.make_archive(server / "102flowers", "gztar", server, "jpg")
  names = ("102flowers.tar.gz", "imagelabels.mat", "setid.mat")
  offer(monkeypatch, *(server / name for name in names))
  assert run(tmp_path, "flower102") == 0
  assert len(data.open_split("flower102", "validation", tmp_path / "data")) == 6
  assert (tmp_path / "downloads/flower102/jpg").is_dir()


def test_a_failed_download_says_what_to_do(tmp_path, monkeypatch, capsys):
  offer(monkeypatch, tmp_path / "102flowers.tgz")
  assert run(tmp_path, "flower102") == 1
  (line,) = capsys.readouterr().err.splitlines()
  assert "102flowers.tgz cannot be downloaded" in line
  assert line.endswith("pass its folder as --source.")


def test_your_own_images_need_a_source(tmp_path, capsys):
  assert run(tmp_path, "folder") == 1
  assert "expected the folder of your images" in capsys.readouterr().err


def test_it_is_a_command(tmp_path, monkeypatch, capsys):
  archives.folder(tmp_path / "source")
  arguments = [f"--source={tmp_path / 'source'}", f"--data_dir={tmp_path / 'data'}"]
  monkeypatch.setattr(sys, "argv", ["prepare", "folder", *arguments])
  monkeypatch.delitem(sys.modules, "experiments.prepare")
  with pytest.raises(SystemExit) as exit_status:
    runpy.run_module("experiments.prepare", run_name="__main__")
  assert exit_status.value.code == 0
  folder = pathlib.Path(capsys.readouterr().out.splitlines()[-1])
  assert folder.is_relative_to(tmp_path / "data")
  assert len(data.open_split("folder", "all", tmp_path / "data")) == 10


def test_damaged_records_are_prepared_again(tmp_path, capsys):
  archives.folder(tmp_path / "source")
  source = f"--source={tmp_path / 'source'}"
  assert run(tmp_path, "folder", source) == 0
  folder = pathlib.Path(capsys.readouterr().out.splitlines()[-1])
  next(folder.glob("*train.array_record*")).unlink()
  assert run(tmp_path, "folder", source) == 0
  captured = capsys.readouterr()
  first, _, last = captured.out.splitlines()
  assert first.startswith(f"{folder} is damaged (")
  assert first.endswith("so it is prepared again.")
  assert last == str(folder)
  assert captured.err == ""
  assert len(list(data.open_split("folder", "all", tmp_path / "data"))) == 10


def test_copies_are_reported(tmp_path, capsys):
  archives.folder(tmp_path / "source/train")
  archives.folder(tmp_path / "source/test", per_class=1)
  assert run(tmp_path, "folder", f"--source={tmp_path / 'source'}") == 0
  expected = "such as test/ant/0.jpg (ant) and train/ant/0.jpg (ant)"
  assert f"2 images of test are also in train, {expected}" in capsys.readouterr().out


def test_images_to_train_on_only_are_one_line(tmp_path, capsys):
  archives.folder(tmp_path / "source/train")
  assert run(tmp_path, "folder", f"--source={tmp_path / 'source'}") == 0
  warning, *_ = capsys.readouterr().out.splitlines()
  assert warning.startswith("there are no images to evaluate on: add a folder")


@pytest.mark.slow
def test_training_on_damaged_records_ends_with_one_line(tmp_path):
  config = small_runs.make_config(small_runs.prepare(tmp_path))
  small_runs.write_config(config, tmp_path / "config.py")
  (path,) = (tmp_path / "prepared").rglob("*train.array_record*")
  content = bytearray(path.read_bytes())
  content[9000:9100] = bytes(100)
  path.write_bytes(content)
  process = subprocess.run(
    [
      *(sys.executable, "-m", "experiments.main"),
      f"--config={tmp_path / 'config.py'}",
      f"--workdir={tmp_path / 'run'}",
    ],
    cwd=small_runs.ROOT,
    capture_output=True,
    text=True,
  )
  assert process.returncode == 1
  (line,) = process.stderr.splitlines()
  assert line.startswith(f"error: {path.parent} is damaged (")
  assert line.endswith("; delete it and prepare folder again.")
