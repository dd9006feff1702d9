import email.message
import hashlib
import io
import pathlib
import shutil
import subprocess
import sys
import urllib.response

import pytest

from experiments import prepare
from pnjax import data
from pnjax.data import _archives
from tests.data import archives


@pytest.fixture
def server(tmp_path):
  """A folder whose files stand for those of an official site."""
  folder = tmp_path / "server"
  folder.mkdir()
  return folder


def offer(monkeypatch, dataset, *files, sha256=None):
  downloads = [prepare.Download(file.as_uri(), sha256) for file in files]
  monkeypatch.setattr(prepare, "DOWNLOADS", {dataset: downloads})


def run(tmp_path, dataset, *arguments):
  return prepare.main(
    [
      dataset,
      f"--data_dir={tmp_path / 'data'}",
      f"--downloads={tmp_path / 'downloads'}",
      *arguments,
    ]
  )


def test_it_prepares_a_source_and_says_where(tmp_path, capsys):
  archives.folder(tmp_path / "source")
  assert run(tmp_path, "folder", f"--source={tmp_path / 'source'}") == 0
  captured = capsys.readouterr()
  assert pathlib.Path(captured.out.strip()).is_dir()
  assert captured.err == ""  # Progress bars are for terminals.
  assert len(data.open_split("folder", "all", tmp_path / "data")) == 10
  assert run(tmp_path, "folder", f"--source={tmp_path / 'source'}") == 0
  assert "folder is prepared already" in capsys.readouterr().out


def test_mistakes_are_one_line(tmp_path, capsys):
  assert run(tmp_path, "folder", f"--source={tmp_path / 'nowhere'}") == 1
  (line,) = capsys.readouterr().err.splitlines()
  assert line.startswith("error: `source` is")


def test_other_pictures_need_overwrite(tmp_path, capsys):
  source = f"--source={tmp_path / 'source'}"
  archives.folder(tmp_path / "source")
  assert run(tmp_path, "folder", source) == 0
  archives.write_picture(tmp_path / "source/ant/new.jpg", 99)
  assert run(tmp_path, "folder", source) == 1
  assert "--overwrite" in capsys.readouterr().err
  assert run(tmp_path, "folder", source, "--overwrite") == 0
  assert len(data.open_split("folder", "all", tmp_path / "data")) == 11


@pytest.mark.parametrize("file_format", ["zip", "tar", "gztar"])
def test_it_downloads_and_unpacks(tmp_path, server, monkeypatch, file_format):
  archives.fmd(tmp_path / "fmd", _archives._FMD_CLASSES, per_class=1)
  name = shutil.make_archive(server / "FMD", file_format, tmp_path / "fmd")
  offer(monkeypatch, "fmd", pathlib.Path(name))
  assert run(tmp_path, "fmd") == 0
  assert len(data.open_split("fmd", "all", tmp_path / "data")) == 10
  # Neither downloaded nor unpacked again.
  shutil.rmtree(server)
  assert run(tmp_path, "fmd") == 0


def test_an_archive_may_have_files_beside_it(tmp_path, server, monkeypatch):
  archives.flower102(server)
  shutil.make_archive(server / "102flowers", "gztar", server, "jpg")
  files = [server / f for f in ("102flowers.tar.gz", "imagelabels.mat", "setid.mat")]
  offer(monkeypatch, "flower102", *files)
  assert run(tmp_path, "flower102") == 0
  assert len(data.open_split("flower102", "validation", tmp_path / "data")) == 6


def test_a_damaged_download_is_not_used(tmp_path, server, monkeypatch, capsys):
  file = server / "FMD.zip"
  file.write_bytes(b"damaged")
  offer(monkeypatch, "fmd", file, sha256=hashlib.sha256(b"whole").hexdigest())
  assert run(tmp_path, "fmd") == 1
  assert "it is damaged or another file" in capsys.readouterr().err
  assert list((tmp_path / "downloads").iterdir()) == []


@pytest.mark.parametrize("name", ["FMD.zip", "FMD.tar", "FMD.tar.gz"])
def test_an_archive_that_does_not_unpack(tmp_path, server, monkeypatch, capsys, name):
  file = server / name
  file.write_bytes(b"damaged")
  offer(monkeypatch, "fmd", file)
  assert run(tmp_path, "fmd") == 1
  assert f"{name} is damaged" in capsys.readouterr().err


def test_a_download_that_breaks_off_is_not_used(tmp_path, monkeypatch, capsys):
  def urlopen(url, timeout):
    headers = email.message.Message()
    headers["Content-Length"] = "1000"
    return urllib.response.addinfourl(io.BytesIO(b"the beginning"), headers, url)

  monkeypatch.setattr(prepare.urllib.request, "urlopen", urlopen)
  assert run(tmp_path, "fmd") == 1
  assert "it broke off after 13 of 1000 bytes" in capsys.readouterr().err
  assert list((tmp_path / "downloads").iterdir()) == []


def test_without_network_it_says_what_to_do(tmp_path, server, monkeypatch, capsys):
  offer(monkeypatch, "fmd", server / "FMD.zip")
  assert run(tmp_path, "fmd") == 1
  error = capsys.readouterr().err.splitlines()[-1]
  assert "FMD.zip cannot be downloaded" in error
  assert "pass its folder as --source" in error


def test_all_archives_can_be_downloaded_but_ones_own():
  assert prepare.DOWNLOADS.keys() == set(data.DATASETS) - {"folder", "textures"}


def test_it_is_a_command(tmp_path):
  archives.folder(tmp_path / "source")
  command = [sys.executable, "-m", "experiments.prepare", "folder"]
  command += [f"--source={tmp_path / 'source'}", f"--data_dir={tmp_path / 'data'}"]
  root = pathlib.Path(__file__).parents[2]
  result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
  assert pathlib.Path(result.stdout.strip()).is_relative_to(tmp_path / "data")
  assert len(data.open_split("folder", "all", tmp_path / "data")) == 10
