"""Files that lie about themselves."""

import json
import struct
import tracemalloc
import zipfile

import pytest

from pnjax import pretrained
from tests.pretrained.weight_files import RECIPE

# Far below what the files of these tests claim to need.
MAX_MEMORY = 150 << 20


def refuse(path, match):
  """Expects one line that names the file, and returns it."""
  tracemalloc.start()
  try:
    with pytest.raises(ValueError, match=match) as error:
      pretrained.load(path, RECIPE)
    _, peak = tracemalloc.get_traced_memory()
  finally:
    tracemalloc.stop()
  message = str(error.value)
  assert message.startswith(str(path)) and len(message.splitlines()) == 1
  assert peak < MAX_MEMORY
  return message


def write_safetensors(path, header, data=b"", length=None):
  header = header if isinstance(header, bytes) else json.dumps(header).encode()
  length = len(header) if length is None else length
  path.write_bytes(struct.pack("<Q", length) + header + data)
  return path


def entry(dtype="F32", shape=(2,), offsets=(0, 8)):
  return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def write_npz(path, members, method=zipfile.ZIP_DEFLATED):
  with zipfile.ZipFile(path, "w", method) as archive:
    for name, content in members.items():
      archive.writestr(name, content)
  return path


def npy(shape, data=b"", dtype="<f4", version=1):
  header = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}}}\n"
  length = struct.pack("<H", len(header))
  return b"\x93NUMPY" + bytes([version, 0]) + length + header.encode() + data
