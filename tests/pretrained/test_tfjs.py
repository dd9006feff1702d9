import json

import numpy as np
import pytest

from pnjax.pretrained import _tfjs
from tests.pretrained.weight_files import write_package
from tests.pretrained.weight_files import write_tar


def test_shards_are_joined_and_split_into_tensors(tmp_path, rng):
  tensors = {
    "a/kernel": rng.standard_normal((3, 2, 4), dtype=np.float32),
    "a/bias": rng.standard_normal((5,), dtype=np.float32),
  }
  package = write_package(tmp_path / "p.tgz", tensors, shard_size=50)
  actual = _tfjs.read(package)
  assert list(actual) == list(tensors)
  for name, x in tensors.items():
    np.testing.assert_array_equal(actual[name], x)


@pytest.mark.parametrize("cut", [1, 8])
def test_shards_of_another_length_are_refused(tmp_path, cut):
  tensors = {"a": np.ones(9, np.float32)}
  package = write_package(tmp_path / "p.tgz", tensors, shard_size=8, cut=cut)
  with pytest.raises(ValueError, match=f"have {36 - cut} bytes, expected 36"):
    _tfjs.read(package)


@pytest.mark.parametrize("length", [0, 5, 100, 200])
def test_truncated_package_is_refused(tmp_path, length):
  tensors = {"a": np.ones(9, np.float32)}
  package = write_package(tmp_path / "p.tgz", tensors, shard_size=8)
  package.write_bytes(package.read_bytes()[:length])
  with pytest.raises(ValueError, match=r"p\.tgz is damaged"):
    _tfjs.read(package)


def test_tensors_of_another_dtype_are_refused(tmp_path):
  package = write_package(tmp_path / "p.tgz", {"a": np.ones(9, np.uint8)}, 8)
  with pytest.raises(ValueError, match="a is stored as uint8, expected float32"):
    _tfjs.read(package)


def test_quantized_tensors_are_refused(tmp_path):
  weight = {"name": "a", "shape": [9], "dtype": "float32"}
  weight["quantization"] = {"dtype": "uint8", "min": 0.0, "scale": 0.5}
  manifest = {"weightsManifest": [{"paths": ["s.bin"], "weights": [weight]}]}
  files = {"model.json": json.dumps(manifest).encode(), "s.bin": b"123456789"}
  with pytest.raises(ValueError, match="a is stored as uint8, expected float32"):
    _tfjs.read(write_tar(tmp_path / "p.tgz", files))


@pytest.mark.parametrize(
  "files, message",
  [
    ({"index.js": b""}, "has 0 files model.json, expected 1"),
    ({"model.json": b"{}", "b/model.json": b"{}"}, "has 2 files model.json"),
    ({"model.json": b"{}"}, "not a TensorFlow.js network"),
    ({"model.json": b"{"}, "not a TensorFlow.js network"),
    (
      {"model.json": b'{"weightsManifest": [{"paths": ["s.bin"], "weights": []}]}'},
      r"not a TensorFlow.js network.*s\.bin",
    ),
  ],
)
def test_other_packages_are_refused(tmp_path, files, message):
  with pytest.raises(ValueError, match=message):
    _tfjs.read(write_tar(tmp_path / "p.tgz", files))
