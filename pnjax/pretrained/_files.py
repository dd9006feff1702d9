"""Reading and writing files of named tensors."""

import collections
from collections.abc import Callable
from collections.abc import Mapping
import contextlib
import hashlib
import json
import os
import pathlib
import pickle
from typing import Any
import zipfile

import jax
import numpy as np
import safetensors
import safetensors.numpy

from pnjax import runtime
from pnjax.pretrained import _damage
from pnjax.pretrained import _npz
from pnjax.pretrained import _numpy_pickle
from pnjax.pretrained import _tfjs

# The file of weights in the folder of a finished run or of an exported model.
NETWORK_FILE = "weights.safetensors"

Tensors = dict[str, np.ndarray]
Metadata = dict[str, str]


def read(path: str | os.PathLike) -> tuple[Tensors, Metadata]:
  """Read all tensors of a file, and its metadata.

  The prefix `module.` of PyTorch's data parallelism is removed from names.

  Args:
    path: File to read, or folder; see `pnjax.pretrained.load`. An entry `recipe` of
      an `.npz` is metadata.
  """
  path = file_of_weights(path)
  reader = _reader(path)
  if not path.is_file():
    raise FileNotFoundError(
      f"{path} is not a file; `python -m experiments.weights fetch resnet50` downloads "
      "weights of ResNet-50."
    )
  tensors, metadata = reader(path)
  return {name.removeprefix("module."): x for name, x in tensors.items()}, metadata


def file_of_weights(path: str | os.PathLike) -> pathlib.Path:
  """Return the file of weights in a folder; another path is returned as it is."""
  path = pathlib.Path(path)
  if not path.is_dir():
    return path
  if not (path / NETWORK_FILE).is_file():
    raise FileNotFoundError(
      f"{path} has no {NETWORK_FILE}, expected the folder of a finished run or of an "
      "exported model. The command that began a run finishes it; one that an earlier "
      f"version finished needs `python -m experiments.export --workdir={path} "
      "--output=DIR`, and backbone.weights=DIR."
    )
  return path / NETWORK_FILE


def digest(tree: Any) -> str:
  """Return the sha256 of a tree of arrays: names, shapes, dtypes and values."""
  state = hashlib.sha256()
  for path, x in jax.tree_util.tree_leaves_with_path(tree):
    x = np.asarray(x)
    state.update(f"{jax.tree_util.keystr(path)} {x.shape} {x.dtype}".encode())
    state.update(np.ascontiguousarray(x).tobytes())
  return state.hexdigest()


def write_safetensors(
  path: str | os.PathLike, tensors: Mapping[str, np.ndarray], metadata: Metadata
) -> None:
  """Write a file completely or not at all."""
  path = pathlib.Path(path)
  data = safetensors.numpy.save(
    {name: np.ascontiguousarray(x) for name, x in tensors.items()}, metadata
  )
  with runtime.temporary_folder(path.parent, f".{path.name}.") as folder:
    temporary = folder / path.name
    temporary.write_bytes(data)
    temporary.replace(path)


def _reader(path: pathlib.Path) -> Callable[[pathlib.Path], tuple[Tensors, Metadata]]:
  readers = {
    ".safetensors": _read_safetensors,
    ".npz": _read_npz,
    ".pth": _read_torch,
    ".pt": _read_torch,
    ".pth.tar": _read_torch,
    ".tgz": _read_package,
    ".ckpt": _read_pickle,
  }
  for suffix, reader in readers.items():
    if path.name.endswith(suffix):
      return reader
  missing = "" if path.exists() else " There is no such file or folder."
  raise ValueError(
    f"The file is {path}, expected a name in {', '.join(readers)}.{missing}"
  )


def _read_safetensors(path: pathlib.Path) -> tuple[Tensors, Metadata]:
  with _unreadable(path):
    with safetensors.safe_open(path, "np") as file:
      _check_names(path)
      tensors = {name: file.get_tensor(name) for name in file.keys()}
      return tensors, file.metadata() or {}


def _check_names(path: pathlib.Path) -> None:
  """Raise ValueError if a header says two things of one name; the last would count."""
  with path.open("rb") as file:
    header = file.read(int.from_bytes(file.read(8), "little"))

  def without_repetition(pairs):
    names = collections.Counter(name for name, _ in pairs)
    repeated = [name for name, count in names.items() if count > 1]
    if repeated:
      raise ValueError(f"it has {repeated[0]} twice")

  json.loads(header, object_pairs_hook=without_repetition)


def _read_npz(path: pathlib.Path) -> tuple[Tensors, Metadata]:
  with _unreadable(path):
    tensors = _npz.read(path)
  recipe = tensors.pop("recipe", None)
  return tensors, {} if recipe is None else {"recipe": str(recipe)}


def _read_torch(path: pathlib.Path) -> tuple[Tensors, Metadata]:
  try:
    import torch
  except ImportError as error:
    raise ImportError(
      f"{path.name} needs PyTorch to be read; `pip install 'pnjax[torch]'`, or run "
      "`python -m experiments.weights convert` where PyTorch is installed."
    ) from error
  refusal = None
  with _unreadable(path):
    if zipfile.is_zipfile(path):
      with zipfile.ZipFile(path) as archive:
        _damage.check_expansion(path, sum(m.file_size for m in archive.infolist()))
    try:
      # Tensors only, because a pickle can run any code.
      content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
      refusal = error
  if refusal is not None:
    raise ValueError(
      f"{path} is damaged or contains more than tensors, and was not unpickled; if you "
      "trust it, save its `state_dict()` alone and load that."
    ) from refusal
  if isinstance(content, dict):
    content = content.get("state_dict", content)
  if not isinstance(content, dict) or not all(
    isinstance(name, str) and isinstance(x, torch.Tensor) for name, x in content.items()
  ):
    raise ValueError(
      f"{path} is no dictionary of tensors; save the `state_dict()` of the network."
    )
  with _unreadable(path):
    # A tensor may repeat a number of its file any number of times.
    num_bytes = sum(x.numel() * x.element_size() for x in content.values())
    _damage.check_expansion(path, num_bytes)
    return {
      name: (x.float() if x.is_floating_point() else x).detach().numpy()
      for name, x in content.items()
    }, {}


def _read_package(path: pathlib.Path) -> tuple[Tensors, Metadata]:
  return _tfjs.read(path), {}


def _read_pickle(path: pathlib.Path) -> tuple[Tensors, Metadata]:
  return _numpy_pickle.read(path), {}


def _unreadable(path: pathlib.Path) -> contextlib.AbstractContextManager[None]:
  return _damage.as_value_error(
    f"{path} cannot be read and may be truncated (", "); get it again."
  )
