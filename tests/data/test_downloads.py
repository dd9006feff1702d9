import email.message
import errno
import hashlib
import io
import pathlib
import shutil
import stat
import tarfile
import urllib.request
import urllib.response
import zipfile

import pytest

from pnjax import data
from pnjax import runtime
from pnjax.data import _downloads
from tests.data import archives


@pytest.fixture
def downloads(tmp_path):
  return tmp_path / "downloads"


@pytest.fixture
def server(tmp_path):
  """A folder whose files stand for those of an official site."""
  folder = tmp_path / "server"
  folder.mkdir()
  return folder


@pytest.fixture
def offer(monkeypatch):
  """A function that makes files the official archive of `fmd`."""

  def offer(*files, sha256=None):
    remote = tuple(_downloads.RemoteFile(file.as_uri(), sha256) for file in files)
    monkeypatch.setitem(_downloads.OFFICIAL_ARCHIVES, "fmd", remote)

  return offer


def names(folder):
  return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("file_format", ["zip", "tar", "gztar"])
def test_archives_are_unpacked_once(tmp_path, server, downloads, offer, file_format):
  (tmp_path / "contents/image").mkdir(parents=True)
  (tmp_path / "contents/image/a.jpg").write_bytes(b"a")
  archive = shutil.make_archive(server / "FMD", file_format, tmp_path / "contents")
  offer(pathlib.Path(archive))
  folder = data.fetch_archive("fmd", downloads)
  assert (folder / "image/a.jpg").read_bytes() == b"a"
  assert names(downloads) == sorted([pathlib.Path(archive).name, "fmd"])
  # Neither downloaded nor unpacked again.
  shutil.rmtree(server)
  (downloads / pathlib.Path(archive).name).unlink()
  assert data.fetch_archive("fmd", downloads) == folder


def test_a_download_is_not_repeated(server, downloads, offer):
  (server / "list.txt").write_text("new")
  offer(server / "list.txt")
  downloads.mkdir()
  (downloads / "list.txt").write_text("downloaded before")
  folder = data.fetch_archive("fmd", downloads)
  assert (folder / "list.txt").read_text() == "downloaded before"


def test_archives_may_consist_of_several_files(tmp_path, server, downloads, offer):
  (tmp_path / "contents").mkdir()
  (tmp_path / "contents/a.jpg").write_bytes(b"a")
  shutil.make_archive(server / "images", "gztar", tmp_path / "contents")
  (server / "labels.mat").write_bytes(b"labels")
  offer(server / "images.tar.gz", server / "labels.mat")
  assert names(data.fetch_archive("fmd", downloads)) == ["a.jpg", "labels.mat"]


def test_the_default_folder_is_in_the_cache(tmp_path, server, offer, monkeypatch):
  monkeypatch.setenv("PNJAX_CACHE", str(tmp_path / "cache"))
  (server / "list.txt").write_text("content")
  offer(server / "list.txt")
  assert data.fetch_archive("fmd") == tmp_path / "cache/downloads/fmd"


def test_a_file_with_another_digest_is_not_used(server, downloads, offer):
  (server / "FMD.zip").write_bytes(b"damaged")
  offer(server / "FMD.zip", sha256=hashlib.sha256(b"intact").hexdigest())
  with pytest.raises(ValueError, match=r"has sha256 .* expected"):
    data.fetch_archive("fmd", downloads)
  assert names(downloads) == []


@pytest.mark.parametrize("name", ["FMD.zip", "FMD.tar", "FMD.tar.gz"])
def test_a_damaged_archive_is_not_used(server, downloads, offer, name):
  (server / name).write_bytes(b"damaged")
  offer(server / name)
  with pytest.raises(OSError, match=f"{name} is damaged .*; delete it and try again"):
    data.fetch_archive("fmd", downloads)
  assert names(downloads) == [name]


def test_an_interrupted_download_is_not_used(downloads, monkeypatch):
  def urlopen(url, timeout):
    headers = email.message.Message()
    headers["Content-Length"] = "1000"
    return urllib.response.addinfourl(io.BytesIO(b"the beginning"), headers, url)

  monkeypatch.setattr(urllib.request, "urlopen", urlopen)
  with pytest.raises(runtime.DownloadError, match="13 of 1000 bytes"):
    data.fetch_archive("fmd", downloads)
  assert names(downloads) == []


def test_a_failed_download_says_what_to_do(server, downloads, offer):
  offer(server / "FMD.zip")
  advice = "get it elsewhere, unpack it, and pass its folder as --source"
  with pytest.raises(runtime.DownloadError, match=f"FMD.zip cannot be .*; {advice}"):
    data.fetch_archive("fmd", downloads)


@pytest.mark.parametrize("dataset", ["folder", "textures", "cifar"])
def test_datasets_without_an_official_archive(downloads, dataset):
  expected = f"`dataset` is '{dataset}', expected one of flower102, mit67, fmd, food101"
  with pytest.raises(ValueError, match=expected):
    data.fetch_archive(dataset, downloads)


def test_all_other_datasets_have_an_official_archive():
  assert data.OFFICIAL_ARCHIVES.keys() == set(data.DATASETS) - {"folder", "textures"}


def tar_with(path, member, content=b""):
  with tarfile.open(path, "w") as archive:
    archive.addfile(member, io.BytesIO(content))


def tar_member(name, kind, target=""):
  member = tarfile.TarInfo(name)
  member.type, member.linkname = kind, target
  return member


@pytest.mark.parametrize(
  "member",
  [
    tar_member("../evil.txt", tarfile.REGTYPE),
    tar_member("a/../../evil.txt", tarfile.REGTYPE),
    tar_member("link", tarfile.SYMTYPE, "/etc/passwd"),
    tar_member("link", tarfile.SYMTYPE, "../../evil.txt"),
    tar_member("link", tarfile.LNKTYPE, "../../evil.txt"),
    tar_member("device", tarfile.CHRTYPE),
    tar_member("pipe", tarfile.FIFOTYPE),
  ],
  ids=[
    "parent",
    "detour",
    "absolute link",
    "link to parent",
    "hard link",
    "device",
    "pipe",
  ],
)
def test_unsafe_members_of_tar_are_refused(server, downloads, offer, member):
  tar_with(server / "FMD.tar", member)
  offer(server / "FMD.tar")
  with pytest.raises(ValueError, match=r"FMD.tar is not safe to unpack \(.*not used"):
    data.fetch_archive("fmd", downloads)
  assert names(downloads) == ["FMD.tar"]
  assert names(downloads.parent) == ["downloads", "server"]


def test_absolute_paths_in_tar_stay_in_the_folder(server, downloads, offer, tmp_path):
  target = tmp_path / "evil.txt"
  tar_with(server / "FMD.tar", tarfile.TarInfo(str(target)))
  offer(server / "FMD.tar")
  folder = data.fetch_archive("fmd", downloads)
  assert not target.exists()
  assert (folder / target.relative_to("/")).exists()


def zip_link(target):
  info = zipfile.ZipInfo("link")
  info.external_attr = (stat.S_IFLNK | 0o777) << 16
  return info, target


@pytest.mark.parametrize(
  ("name", "content"),
  [
    ("../evil.txt", "x"),
    ("a/../../evil.txt", "x"),
    ("/tmp/evil.txt", "x"),
    ("..\\evil.txt", "x"),
    zip_link("/etc/passwd"),
  ],
  ids=["parent", "detour", "absolute", "backslash", "link"],
)
def test_unsafe_members_of_zip_are_refused(server, downloads, offer, name, content):
  with zipfile.ZipFile(server / "FMD.zip", "w") as archive:
    archive.writestr(name, content)
  offer(server / "FMD.zip")
  with pytest.raises(ValueError, match=r"FMD.zip is not safe to unpack \(.*not used"):
    data.fetch_archive("fmd", downloads)
  assert names(downloads) == ["FMD.zip"]
  assert names(downloads.parent) == ["downloads", "server"]


@pytest.mark.parametrize("name", ["FMD.zip", "FMD.tar.gz"])
def test_changed_bytes_of_an_archive_are_noticed(
  server, downloads, offer, tmp_path, name
):
  (tmp_path / "contents").mkdir()
  (tmp_path / "contents/a.jpg").write_bytes(archives.jpeg(0))
  form = "zip" if name.endswith("zip") else "gztar"
  shutil.make_archive(server / "FMD", form, tmp_path / "contents")
  content = bytearray((server / name).read_bytes())
  for i in range(300, 350):
    content[i] ^= 0xFF
  (server / name).write_bytes(content)
  offer(server / name)
  with pytest.raises(OSError, match=f"{name} is damaged .*; delete it and try again"):
    data.fetch_archive("fmd", downloads)
  assert names(downloads) == [name]


def test_an_archive_with_a_password_is_refused(server, downloads, offer):
  with zipfile.ZipFile(server / "FMD.zip", "w") as archive:
    archive.writestr("a.txt", "x")
  content = bytearray((server / "FMD.zip").read_bytes())
  content[6] |= 1  # The flag of encryption, in the file and in the directory.
  content[content.index(b"PK\1\2") + 8] |= 1
  (server / "FMD.zip").write_bytes(content)
  offer(server / "FMD.zip")
  with pytest.raises(OSError, match=r"FMD.zip is damaged \(.*password"):
    data.fetch_archive("fmd", downloads)


def test_a_full_disk_is_one_line_when_unpacking(server, downloads, offer, monkeypatch):
  (server / "list.txt").write_text("content")
  offer(server / "list.txt")

  def fail(*args):
    raise OSError(errno.ENOSPC, "No space left on device")

  monkeypatch.setattr(shutil, "copy", fail)
  with pytest.raises(OSError, match=r"list.txt cannot be unpacked to .*No space left"):
    data.fetch_archive("fmd", downloads)
  assert names(downloads) == ["list.txt"]
  monkeypatch.undo()
  offer(server / "list.txt")
  assert names(data.fetch_archive("fmd", downloads)) == ["list.txt"]


def test_a_full_disk_is_one_line_when_downloading(
  server, downloads, offer, monkeypatch
):
  (server / "list.txt").write_text("content")
  offer(server / "list.txt")

  def fail(*args):
    raise OSError(errno.ENOSPC, "No space left on device")

  monkeypatch.setattr(pathlib.Path, "open", fail)
  with pytest.raises(OSError, match=r"list.txt cannot be downloaded .*No space left"):
    data.fetch_archive("fmd", downloads)
  assert names(downloads) == []
