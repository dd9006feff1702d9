"""Tensors of a TensorFlow.js network inside an npm package."""

import json
import math
import pathlib
import tarfile
import zlib

import numpy as np

_DAMAGED = (tarfile.TarError, EOFError, KeyError, json.JSONDecodeError, zlib.error)


def read(package: pathlib.Path) -> dict[str, np.ndarray]:
  """Read all tensors of the network in a package.

  `model.json` lists names, shapes and shards. The concatenated shards are the
  concatenated tensors.

  Args:
    package: File that `npm pack` wrote, with one `model.json`.
  """
  try:
    with tarfile.open(package) as tar:
      files = {pathlib.PurePosixPath(m.name): m for m in tar if m.isfile()}
      models = [path for path in files if path.name == "model.json"]
      if len(models) != 1:
        raise ValueError(f"{package} has {len(models)} files model.json, expected 1.")

      def read_file(path):
        return tar.extractfile(files[path]).read()

      tensors: dict[str, np.ndarray] = {}
      for group in json.loads(read_file(models[0]))["weightsManifest"]:
        shards = [read_file(models[0].parent / name) for name in group["paths"]]
        tensors |= _split(b"".join(shards), group["weights"])
      return tensors
  except _DAMAGED as error:
    raise ValueError(
      f"{package} is damaged or not a TensorFlow.js network ({error}); get it again."
    ) from error


def _split(data: bytes, weights: list[dict]) -> dict[str, np.ndarray]:
  for weight in weights:
    stored = weight.get("quantization", weight)["dtype"]
    if stored != "float32":
      raise ValueError(f"{weight['name']} is stored as {stored}, expected float32.")
  num_bytes = 4 * sum(math.prod(weight["shape"]) for weight in weights)
  if len(data) != num_bytes:
    raise ValueError(f"The shards have {len(data)} bytes, expected {num_bytes}.")
  tensors, start = {}, 0
  for weight in weights:
    tensor = np.frombuffer(data, "<f4", math.prod(weight["shape"]), start)
    tensors[weight["name"]] = tensor.reshape(weight["shape"])
    start += tensor.nbytes
  return tensors
