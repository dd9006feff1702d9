"""Damaged files of every format: a result or a ValueError, and nothing else."""

import gzip
import io
import pickle
import tracemalloc
import zipfile

import hypothesis
from hypothesis import strategies as st
import numpy as np
import pytest
import safetensors.numpy

from pnjax.pretrained import _files
from tests.pretrained.weight_files import write_package

TENSORS = {
  "conv/kernel": np.arange(24, dtype=np.float32).reshape(2, 3, 4),
  "conv/bias": np.arange(3, dtype=np.float32),
}
MAX_MEMORY = 150 << 20


def torch_bytes(folder):
  torch = pytest.importorskip("torch")
  path = folder / "intact.pth"
  torch.save({name: torch.from_numpy(x.copy()) for name, x in TENSORS.items()}, path)
  return path.read_bytes()


def npz_bytes(folder):
  np.savez(folder / "intact.npz", **TENSORS)
  return (folder / "intact.npz").read_bytes()


def npy_bytes(folder):
  np.save(folder / "intact.npy", TENSORS["conv/bias"])
  return (folder / "intact.npy").read_bytes()


def tar_bytes(folder):
  package = write_package(folder / "intact.tgz", TENSORS, shard_size=50)
  return gzip.decompress(package.read_bytes())


def as_archive(content):
  """A correct archive of content that may be damaged."""
  file = io.BytesIO()
  with zipfile.ZipFile(file, "w") as archive:
    archive.writestr("a.npy", content)
  return file.getvalue()


def unchanged(content):
  return content


# What is damaged: suffix of the file, its contents, and how they are packed afterwards.
# The checksums of archives would detect most damage of what is packed already.
FILES = {
  "safetensors": (
    ".safetensors",
    lambda folder: safetensors.numpy.save(TENSORS, {"recipe": "alexnet"}),
    unchanged,
  ),
  "pickle": (".ckpt", lambda folder: pickle.dumps(TENSORS, protocol=4), unchanged),
  "torch": (".pth", torch_bytes, unchanged),
  "npz": (".npz", npz_bytes, unchanged),
  "member of npz": (".npz", npy_bytes, as_archive),
  "package": (".tgz", tar_bytes, gzip.compress),
}

# Numbers that headers and pickles have for lengths, and their ends.
LENGTHS = [
  n.to_bytes(size, "little")
  for size in (1, 2, 4, 8)
  for n in (0, 1, 2 ** (8 * size - 1) - 1, 2 ** (8 * size) - 1)
]
TEXTS = [b'{"', b"[", b"}", b'":', b"-1", b"1e9", b"9" * 20, b"null", b"\0", b"."]
position = st.floats(0, 1)
edit = st.one_of(
  st.tuples(st.just("overwrite"), position, st.binary(min_size=1, max_size=4)),
  st.tuples(st.just("overwrite"), position, st.sampled_from(LENGTHS)),
  st.tuples(st.just("insert"), position, st.sampled_from(TEXTS)),
  st.tuples(st.just("truncate"), position, st.just(b"")),
  st.tuples(st.just("move"), position, position),
)


def damage(data, edits):
  """Data after edits at positions from 0, its start, to 1, its end."""
  for kind, share, what in edits:
    i = int(share * len(data))
    if kind == "overwrite":
      data = data[:i] + what + data[i + len(what) :]
    elif kind == "insert":
      data = data[:i] + what + data[i:]
    elif kind == "truncate":
      data = data[:i]
    else:
      j = int(what * len(data))
      data = data[:j] + data[i : i + 16] + data[j:]
  return data


@pytest.mark.parametrize("name", FILES)
def test_any_damage_gives_tensors_or_an_error_of_one_line(tmp_path, name):
  suffix, make, pack = FILES[name]
  path = tmp_path / f"a{suffix}"
  intact = make(tmp_path)
  path.write_bytes(pack(intact))
  _files.read(path)

  @hypothesis.settings(max_examples=200, derandomize=True, deadline=None, database=None)
  @hypothesis.given(st.lists(edit, min_size=1, max_size=3), st.booleans())
  def run(edits, near_the_start):
    if near_the_start:  # Of most formats, the header.
      edits = [(kind, share**4, what) for kind, share, what in edits]
    path.write_bytes(pack(damage(intact, edits)))
    try:
      tensors, _ = _files.read(path)
    except ValueError as error:
      assert str(error).startswith(str(path)) and len(str(error).splitlines()) == 1
    else:
      assert all(isinstance(x, np.ndarray) for x in tensors.values())

  tracemalloc.start()
  try:
    run()
    _, peak = tracemalloc.get_traced_memory()
  finally:
    tracemalloc.stop()
  assert peak < MAX_MEMORY
