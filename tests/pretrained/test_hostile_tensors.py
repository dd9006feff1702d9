"""Safetensors and archives of NumPy that lie: one line that names the file."""

import json
import pickle
import struct
import zipfile

import numpy as np
import pytest

from pnjax import pretrained
from tests.pretrained.hostile import entry
from tests.pretrained.hostile import npy
from tests.pretrained.hostile import refuse
from tests.pretrained.hostile import write_npz
from tests.pretrained.hostile import write_safetensors
from tests.pretrained.weight_files import RECIPE


@pytest.mark.parametrize("length", [1000, 2**60, 2**64 - 1])
def test_safetensors_with_a_header_longer_than_the_file(tmp_path, length):
  path = write_safetensors(tmp_path / "a.safetensors", b"{}", length=length)
  refuse(path, "cannot be read .*header")


@pytest.mark.parametrize(
  "header", [b"hello", b"[]", b"3", b"\xff\xfe{}", b"[" * 10000], ids=str
)
def test_safetensors_whose_header_is_not_a_dictionary(tmp_path, header):
  refuse(write_safetensors(tmp_path / "a.safetensors", header), "cannot be read")


@pytest.mark.parametrize(
  "entries",
  [
    {"a": entry(), "b": entry()},
    {"a": entry(offsets=(8, 16))},
    {"a": entry(shape=(200,), offsets=(0, 800))},
    {"a": entry(offsets=(8, 0))},
    {"a": entry(offsets=(0, -8))},
  ],
  ids=["overlap", "gap", "out of range", "reversed", "negative"],
)
def test_safetensors_with_wrong_offsets(tmp_path, entries):
  path = write_safetensors(tmp_path / "a.safetensors", entries, bytes(16))
  refuse(path, "cannot be read")


@pytest.mark.parametrize("shape", [(3,), (-2, -1), (2**40, 2**40), (1.5,)], ids=str)
def test_safetensors_with_a_shape_that_does_not_fit_its_bytes(tmp_path, shape):
  entries = {"a": entry(shape=shape)}
  path = write_safetensors(tmp_path / "a.safetensors", entries, bytes(8))
  refuse(path, "cannot be read")


def test_safetensors_with_an_empty_tensor_of_absurd_shape(tmp_path):
  entries = {"a": entry(shape=(0, 2**62), offsets=(0, 0))}
  refuse(write_safetensors(tmp_path / "a.safetensors", entries), "cannot be read")


@pytest.mark.parametrize("dtype", ["X32", "float32", "F8_E4M3", "F4", None], ids=str)
def test_safetensors_with_an_unknown_dtype(tmp_path, dtype):
  entries = {"a": entry(dtype=dtype, shape=(16,) if dtype == "F4" else (8,))}
  path = write_safetensors(tmp_path / "a.safetensors", entries, bytes(8))
  refuse(path, "cannot be read")


def test_safetensors_with_a_name_twice(tmp_path):
  one, other = json.dumps(entry()), json.dumps(entry(shape=(1, 2)))
  header = f'{{"a": {one}, "a": {other}}}'.encode()
  path = write_safetensors(tmp_path / "a.safetensors", header, bytes(8))
  refuse(path, "it has a twice")


@pytest.mark.parametrize("metadata", [{"recipe": 1}, {"recipe": None}, [], "recipe"])
def test_safetensors_with_metadata_that_are_not_text(tmp_path, metadata):
  path = write_safetensors(tmp_path / "a.safetensors", {"__metadata__": metadata})
  refuse(path, "cannot be read")


@pytest.mark.parametrize(
  "description",
  ["{}", "3", "[" * 100000, '{"architecture": [], "recipe": {}, "sha256": ""}'],
  ids=["empty", "number", "nested", "lists"],
)
def test_network_with_a_description_of_another_form(tmp_path, description):
  header = {"__metadata__": {"pnjax": description}}
  path = write_safetensors(tmp_path / "a.safetensors", header)
  assert len(refuse(path, "is damaged, or of a later version of pnjax")) < 600


def test_names_with_control_characters_are_escaped(tmp_path):
  entries = {"features.0.weight\x1b[2J\n\u202eevil" + "e" * 10000: entry()}
  path = write_safetensors(tmp_path / "a.safetensors", entries, bytes(8))
  message = refuse(path, r"features\.0\.weight\\x1b\[2J\\x0a\\u202eevil")
  assert message.isascii() and len(message) < 1000


@pytest.mark.parametrize(
  "shape", ["(3,)", f"({2**28},)", f"({2**60},)", "(-2,)", "(2.0,)", "2", "(2 * 1,)"]
)
def test_npz_with_a_shape_that_does_not_fit_its_bytes(tmp_path, shape):
  refuse(write_npz(tmp_path / "a.npz", {"a.npy": npy(shape, bytes(8))}), "cannot be re")


def test_npz_whose_header_is_code(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  content = npy("(), '': __import__('pathlib').Path('touched').touch()", bytes(4))
  refuse(write_npz(tmp_path / "a.npz", {"a.npy": content}), "cannot be read")
  assert not (tmp_path / "touched").exists()


def test_npz_with_objects(tmp_path):
  content = npy("(1,)", pickle.dumps(3), dtype="|O")
  refuse(write_npz(tmp_path / "a.npz", {"a.npy": content}), "a is made of objects")


def test_npz_with_something_else_than_arrays(tmp_path):
  refuse(write_npz(tmp_path / "a.npz", {"readme.txt": b"hello"}), "magic string")
  content = npy("(1,)", bytes(4), version=9)
  refuse(write_npz(tmp_path / "b.npz", {"a.npy": content}), r"version \(9, 0\)")


def test_npz_with_a_name_twice(tmp_path):
  content = npy("(1,)", bytes(4))
  path = write_npz(tmp_path / "a.npz", {"a": content, "a.npy": content})
  refuse(path, "it has a twice")


@pytest.mark.parametrize("dtype", ["<U1", "<M8[s]", "<c8", "|b1", [("x", "<f4")]])
def test_npz_with_tensors_of_something_else_than_numbers(tmp_path, dtype):
  size = np.dtype(dtype).itemsize
  content = npy("(1,)", bytes(size), dtype)
  path = write_npz(tmp_path / "a.npz", {"features.0.bias.npy": content})
  refuse(path, r"1 with another shape or dtype \(features\.0\.bias: ")


def write_bomb(path, num_megabytes=100):
  """An archive of zeros, which a thousandth of their size holds."""
  zeros = bytes(num_megabytes << 20)
  content = npy(f"({len(zeros) // 4},)", zeros)
  return write_npz(path, {"a.npy": content})


def test_npz_that_unpacks_to_far_more_than_its_size(tmp_path):
  refuse(write_bomb(tmp_path / "a.npz"), "it unpacks to 104857.* at most 16 times")


def test_npz_that_unpacks_to_more_than_it_says(tmp_path):
  path = write_bomb(tmp_path / "a.npz")
  data = bytearray(path.read_bytes())
  # The size of the contents, as the directory at the end of the archive states it.
  start = data.index(b"PK\x01\x02") + 24
  data[start : start + 4] = struct.pack("<I", 200)
  path.write_bytes(data)
  refuse(path, "Bad CRC-32")


def test_npz_that_is_compressed_by_another_method(tmp_path):
  """Libraries unpack these without a bound."""
  content = npy("(1,)", bytes(4))
  path = write_npz(tmp_path / "a.npz", {"a.npy": content}, zipfile.ZIP_BZIP2)
  refuse(path, "a is compressed by an unknown method")


def test_small_file_of_zeros_is_read(tmp_path, tensors):
  path = tmp_path / "a.npz"
  np.savez_compressed(path, **{name: np.zeros_like(x) for name, x in tensors.items()})
  assert pretrained.load(path, RECIPE).name == RECIPE


def test_member_with_a_path_outside_of_the_folder_writes_nothing(tmp_path):
  folder = tmp_path / "folder"
  folder.mkdir()
  content = npy("(1,)", bytes(4))
  refuse(write_npz(folder / "a.npz", {"../outside.npy": content}), "does not fit")
  assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_values_beyond_float32_are_refused(tmp_path, tensors):
  """They would become infinite."""
  name = "features.0.bias"
  path = tmp_path / "a.npz"
  np.savez(path, **tensors | {name: np.full_like(tensors[name], 1e300, np.float64)})
  refuse(path, f"is damaged: not all values are finite in {name}")


@pytest.mark.parametrize("recipe", ["Weights of mine", "", "a" * 10000])
def test_recipe_in_the_metadata_that_is_not_known(tmp_path, recipe):
  header = {"__metadata__": {"recipe": recipe}}
  path = write_safetensors(tmp_path / "a.safetensors", header)
  with pytest.raises(ValueError, match="expected one of resnet50_v1_caffe") as error:
    pretrained.load(path)
  assert str(path) in str(error.value) and len(str(error.value)) < 2000
