"""Tensors of a TensorFlow.js network inside an npm package."""

import gzip
import io
import json
import math
import pathlib
import tarfile

import numpy as np

from pnjax.pretrained import _damage

# Bytes that are unpacked at a time.
_BLOCK = 1 << 20


def read(package: pathlib.Path) -> dict[str, np.ndarray]:
  """Read all tensors of the network in a package.

  `model.json` lists names, shapes and shards. The concatenated shards are the
  concatenated tensors.

  Args:
    package: File that `npm pack` wrote, with one `model.json`.
  """
  before = f"{package} is damaged or not a TensorFlow.js network ("
  with _damage.as_value_error(before, "); get it again."):
    with tarfile.open(fileobj=_unpack(package)) as tar:
      return _read_network(package, tar)


def _unpack(package: pathlib.Path) -> io.BytesIO:
  """Return the contents of a compressed file, unless they are far larger."""
  content = io.BytesIO()
  with gzip.open(package) as file:
    while block := file.read(_BLOCK):
      content.write(block)
      _damage.check_expansion(package, content.tell())
  content.seek(0)
  return content


def _read_network(package: pathlib.Path, tar: tarfile.TarFile) -> dict[str, np.ndarray]:
  files = {pathlib.PurePosixPath(m.name): m for m in tar if m.isfile()}
  # A sparse file has as many zeros as it likes.
  _damage.check_expansion(package, sum(member.size for member in files.values()))
  models = [path for path in files if path.name == "model.json"]
  if len(models) != 1:
    raise ValueError(f"it has {len(models)} files model.json, expected 1")

  def read_once(path):
    # A shard that is listed twice is not there for the second time.
    if path not in files:
      raise ValueError(f"it has no {path}, or names it twice")
    content = tar.extractfile(files.pop(path))
    return b"" if content is None else content.read()

  tensors: dict[str, np.ndarray] = {}
  for group in json.loads(read_once(models[0]))["weightsManifest"]:
    shards = [read_once(models[0].parent / name) for name in group["paths"]]
    for name, tensor in _split(b"".join(shards), group["weights"]):
      if name in tensors:
        raise ValueError(f"it has {name} twice")
      tensors[name] = tensor
  return tensors


def _split(data: bytes, weights: list[dict]) -> list[tuple[str, np.ndarray]]:
  """Return the tensors whose concatenation is `data`, with their names."""
  for weight in weights:
    stored = weight.get("quantization", weight)["dtype"]
    if stored != "float32":
      raise ValueError(f"{weight['name']} is stored as {stored}, expected float32")
    _damage.check_shape(weight["name"], weight["shape"])
  num_bytes = 4 * sum(math.prod(weight["shape"]) for weight in weights)
  if len(data) != num_bytes:
    raise ValueError(f"the shards have {len(data)} bytes, expected {num_bytes}")
  tensors, start = [], 0
  for weight in weights:
    tensor = np.frombuffer(data, "<f4", math.prod(weight["shape"]), start)
    tensors.append((str(weight["name"]), tensor.reshape(weight["shape"])))
    start += tensor.nbytes
  return tensors
