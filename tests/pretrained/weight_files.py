"""Random weights, and packages to put them in."""

import io
import json
import tarfile

import numpy as np

from pnjax.pretrained import _load
from pnjax.pretrained import _names

RECIPE = "alexnet_torchvision"


def random_tensors(recipe, with_classifier=True, example=""):
  """Returns all tensors that a file of this recipe must have.

  Args:
    recipe: Recipe of the network.
    with_classifier: Whether the file has those of the classifier.
    example: One of the names in the file, if they are not torchvision's.
  """
  rng = np.random.default_rng(0)
  model = recipe.model(with_classifier)
  conversion = _names.conversion_from(recipe.architecture, [example])
  conversions = _load._conversions(model, conversion)
  # Repeated numbers are drawn faster. The period is prime, so that no axis has it.
  return {
    name: np.resize(rng.standard_normal(9973, np.float32), shape)
    for conversion in conversions.values()
    for name, shape in conversion.tensors.items()
  }


def write_package(path, tensors, shard_size, cut=0):
  """Writes tensors as an npm package with a TensorFlow.js network."""
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
  return write_tar(path, files | dict(zip(group["paths"], shards, strict=True)))


def write_tar(path, files):
  with tarfile.open(path, "w:gz", compresslevel=1) as tar:
    for name, content in files.items():
      entry = tarfile.TarInfo(f"package/net/{name}")
      entry.size = len(content)
      tar.addfile(entry, io.BytesIO(content))
  return path
