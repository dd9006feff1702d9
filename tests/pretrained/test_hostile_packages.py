"""Pickles, files of PyTorch and packages that lie: one line that names the file."""

import gzip
import io
import json
import pickle
import struct
import tarfile
import zipfile

import numpy as np
import pytest

from pnjax import pretrained
from tests.pretrained.hostile import refuse
from tests.pretrained.hostile import write_npz
from tests.pretrained.weight_files import RECIPE
from tests.pretrained.weight_files import write_tar


@pytest.mark.parametrize(
  "program",
  [
    b"\x80\x03}r" + struct.pack("<I", 2**29) + b".",
    b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b".",
    b"\x80\x04\x95" + struct.pack("<Q", 2**40) + b".",
  ],
  ids=["memo", "bytes", "frame"],
)
def test_pickle_that_claims_to_need_memory(tmp_path, program):
  path = tmp_path / "a.ckpt"
  path.write_bytes(program)
  refuse(path, "damaged or contains more than arrays|does not fit")


def test_pickle_whose_dictionaries_hold_each_other(tmp_path):
  content = {}
  for _ in range(40):  # 2⁴⁰ paths to the innermost one.
    content = {"a": content, "b": content}
  (tmp_path / "a.ckpt").write_bytes(pickle.dumps(content))
  refuse(tmp_path / "a.ckpt", "it has the same dictionary twice")


def test_pickle_of_a_dictionary_in_itself(tmp_path):
  content = {}
  content["a"] = content
  (tmp_path / "a.ckpt").write_bytes(pickle.dumps(content))
  refuse(tmp_path / "a.ckpt", "it has the same dictionary twice")


def test_pickle_with_long_names(tmp_path):
  """A name of a dictionary is repeated for each of its arrays."""
  content = {"a" * 100_000: {str(i): np.zeros(1) for i in range(2000)}}
  (tmp_path / "a.ckpt").write_bytes(pickle.dumps(content))
  refuse(tmp_path / "a.ckpt", "more than 1000 characters")


@pytest.fixture
def torch():
  return pytest.importorskip("torch")


def test_torch_file_that_repeats_a_number(tmp_path, torch):
  """Its view of one number has as many elements as it likes."""
  path = tmp_path / "a.pth"
  torch.save({"features.0.bias": torch.zeros(1).expand(1 << 40)}, path)
  refuse(path, "it unpacks to 4398046511104 bytes")


def test_torch_file_that_unpacks_to_far_more_than_its_size(tmp_path, torch):
  path = tmp_path / "a.pth"
  torch.save({"features.0.bias": torch.zeros(25 << 20)}, path)
  with zipfile.ZipFile(path) as archive:
    members = {name: archive.read(name) for name in archive.namelist()}
  refuse(write_npz(path, members), "it unpacks to 10485.* at most 16 times")


@pytest.mark.parametrize("kind", ["sparse", "meta", "complex"])
def test_torch_file_with_tensors_of_another_kind(tmp_path, torch, kind):
  zeros = torch.zeros(64)
  tensor = {
    "sparse": lambda: zeros.to_sparse(),
    "meta": lambda: zeros.to("meta"),
    "complex": lambda: zeros.to(torch.complex64),
  }[kind]()
  torch.save({"features.0.bias": tensor}, tmp_path / "a.pth")
  refuse(tmp_path / "a.pth", "cannot be read|does not fit|not unpickled")


def test_torch_file_with_names_that_are_numbers(tmp_path, torch):
  torch.save({0: torch.zeros(3)}, tmp_path / "a.pth")
  refuse(tmp_path / "a.pth", "is no dictionary of tensors")


def test_torch_file_of_trainable_tensors_is_read(tmp_path, torch, tensors):
  trainable = {k: torch.tensor(x, requires_grad=True) for k, x in tensors.items()}
  torch.save(trainable, tmp_path / "a.pth")
  assert pretrained.load(tmp_path / "a.pth", RECIPE).name == RECIPE


def write_network(path, weights, data=bytes(8), shards=("s.bin",)):
  manifest = {"weightsManifest": [{"paths": shards, "weights": weights}]}
  return write_tar(path, {"model.json": json.dumps(manifest).encode(), "s.bin": data})


@pytest.mark.parametrize("shape", [[3], [-2], [-1, -2], [2.0], ["2"], 2, [1 << 62]])
def test_package_with_a_shape_that_does_not_fit_its_bytes(tmp_path, shape):
  weight = {"name": "a", "shape": shape, "dtype": "float32"}
  refuse(write_network(tmp_path / "a.tgz", [weight]), "not a TensorFlow.js network")


def test_package_with_lengths_that_cancel(tmp_path):
  weights = [
    {"name": name, "shape": [length], "dtype": "float32"}
    for name, length in [("a", -1), ("b", 3)]
  ]
  refuse(write_network(tmp_path / "a.tgz", weights), r"a has shape \[-1\]")


def test_package_with_a_name_twice(tmp_path):
  weight = {"name": "a", "shape": [1], "dtype": "float32"}
  refuse(write_network(tmp_path / "a.tgz", [weight, weight]), "it has a twice")


@pytest.mark.parametrize(
  "shards", [["t.bin"], ["s.bin", "s.bin"], ["../../s.bin"], ["/etc/passwd"], [3]]
)
def test_package_with_shards_that_are_not_there(tmp_path, shards):
  weight = {"name": "a", "shape": [2], "dtype": "float32"}
  path = write_network(tmp_path / "a.tgz", [weight], shards=shards)
  refuse(path, "not a TensorFlow.js network")


@pytest.mark.parametrize(
  "manifest", ["[]", "{}", '{"weightsManifest": 3}', "[" * 100000, '"' + "9" * 9999]
)
def test_package_with_a_manifest_of_another_form(tmp_path, manifest):
  path = write_tar(tmp_path / "a.tgz", {"model.json": manifest.encode()})
  refuse(path, "not a TensorFlow.js network")


def test_package_that_unpacks_to_far_more_than_its_size(tmp_path):
  path = write_tar(tmp_path / "a.tgz", {"s.bin": bytes(100 << 20)})
  refuse(path, "it unpacks to 6.* at most 16 times")


def test_package_with_a_file_of_mostly_holes(tmp_path):
  hole = tarfile.TarInfo("package/s.bin")
  header = bytearray(hole.tobuf(tarfile.GNU_FORMAT))
  header[156:157] = tarfile.GNUTYPE_SPARSE
  # One part of 0 bytes at 0, and 1 GB in all.
  header[386:410] = b"00000000000\0" * 2
  header[483:495] = b"10000000000\0"
  header[148:156] = b" " * 8
  header[148:156] = b"%06o\0 " % sum(header[:512])
  (tmp_path / "a.tgz").write_bytes(gzip.compress(bytes(header) + bytes(1024)))
  refuse(tmp_path / "a.tgz", "it unpacks to 1073741824 bytes")


def test_package_with_a_link_to_a_file_outside(tmp_path):
  secret = tmp_path / "secret"
  secret.write_bytes(bytes(8))
  path = tmp_path / "a.tgz"
  weight = {"name": "a", "shape": [2], "dtype": "float32"}
  manifest = {"weightsManifest": [{"paths": ["s.bin"], "weights": [weight]}]}
  content = json.dumps(manifest).encode()
  with tarfile.open(path, "w:gz") as tar:
    model = tarfile.TarInfo("package/model.json")
    model.size = len(content)
    tar.addfile(model, io.BytesIO(content))
    link = tarfile.TarInfo("package/s.bin")
    link.type, link.linkname = tarfile.SYMTYPE, str(secret)
    tar.addfile(link)
  refuse(path, r"it has no package/s\.bin")


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "ckpt", "tgz", "pth"])
def test_empty_file(tmp_path, suffix):
  if suffix == "pth":
    pytest.importorskip("torch")
  path = tmp_path / f"a.{suffix}"
  path.touch()
  refuse(path, r"cannot be read|is damaged")


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "ckpt", "tgz"])
def test_folder_with_the_name_of_a_file(tmp_path, suffix):
  path = tmp_path / f"a.{suffix}"
  path.mkdir()
  with pytest.raises(FileNotFoundError, match=r"has no weights\.safetensors, expected"):
    pretrained.load(path, RECIPE)
