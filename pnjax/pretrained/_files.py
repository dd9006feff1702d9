"""Reading and writing files of named tensors."""

from collections.abc import Callable
from collections.abc import Mapping
import os
import pathlib
import pickle
import tempfile
import zipfile
import zlib

import numpy as np
import safetensors
import safetensors.numpy

Tensors = dict[str, np.ndarray]
Metadata = dict[str, str]


def read(path: str | os.PathLike) -> tuple[Tensors, Metadata]:
  """Reads all tensors of a file, and what it says about itself.

  Names lose the `module.` that PyTorch's data parallelism puts before them.

  Args:
    path: `.safetensors`, `.npz` (where an entry `recipe` is taken for metadata),
      or with PyTorch installed `.pth`, `.pt` and `.pth.tar`.
  """
  path = pathlib.Path(path)
  reader = _reader(path)
  if not path.is_file():
    raise FileNotFoundError(
      f"{path} is not a file; `python -m experiments.weights fetch resnet50` "
      "gets weights of ResNet-50."
    )
  tensors, metadata = reader(path)
  return {name.removeprefix("module."): x for name, x in tensors.items()}, metadata


def write_safetensors(
  path: str | os.PathLike, tensors: Mapping[str, np.ndarray], metadata: Metadata
) -> None:
  """Writes a file whole or not at all."""
  path = pathlib.Path(path)
  data = safetensors.numpy.save(
    {name: np.ascontiguousarray(x) for name, x in tensors.items()}, metadata
  )
  with tempfile.NamedTemporaryFile(
    dir=path.parent, prefix=f".{path.name}.", delete=False
  ) as file:
    try:
      file.write(data)
      file.close()
      os.chmod(file.name, 0o644)  # Temporary files are for their owner only.
      os.replace(file.name, path)
    except BaseException:
      os.unlink(file.name)
      raise


def _reader(path: pathlib.Path) -> Callable[[pathlib.Path], tuple[Tensors, Metadata]]:
  readers = {
    ".safetensors": _read_safetensors,
    ".npz": _read_npz,
    ".pth": _read_torch,
    ".pt": _read_torch,
    ".pth.tar": _read_torch,
  }
  for suffix, reader in readers.items():
    if path.name.endswith(suffix):
      return reader
  raise ValueError(f"{path.name} ends in none of {', '.join(readers)}.")


def _read_safetensors(path: pathlib.Path) -> tuple[Tensors, Metadata]:
  try:
    with safetensors.safe_open(path, "np") as file:
      tensors = {name: file.get_tensor(name) for name in file.keys()}
      return tensors, file.metadata() or {}
  except safetensors.SafetensorError as error:
    raise _unreadable(path, error) from error


def _read_npz(path: pathlib.Path) -> tuple[Tensors, Metadata]:
  try:
    # Opened here, since NumPy leaves a damaged file open.
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
      tensors = dict(archive)
  except TypeError as error:  # NumPy opens a single array, too.
    raise ValueError(f"{path} is no archive of arrays, as `.npz` is.") from error
  except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
    raise _unreadable(path, error) from error
  recipe = tensors.pop("recipe", None)
  return tensors, {} if recipe is None else {"recipe": str(recipe)}


def _read_torch(path: pathlib.Path) -> tuple[Tensors, Metadata]:
  try:
    import torch
  except ImportError as error:
    raise ImportError(
      f"{path.name} needs PyTorch to be read; `pip install torch`, or convert it "
      "where PyTorch is: `python -m experiments.weights convert`."
    ) from error
  try:
    # Tensors only: a pickle could run any code otherwise.
    content = torch.load(path, map_location="cpu", weights_only=True)
  except pickle.UnpicklingError as error:
    raise ValueError(
      f"{path} holds more than tensors, or is damaged, and was not unpickled; if "
      "you trust it, save its `state_dict()` alone and load that."
    ) from error
  except (RuntimeError, EOFError, OSError, ValueError) as error:
    raise _unreadable(path, error) from error
  if isinstance(content, dict):
    content = content.get("state_dict", content)
  if not isinstance(content, dict) or not all(
    isinstance(x, torch.Tensor) for x in content.values()
  ):
    raise ValueError(f"{path} holds no dictionary of tensors, such as `state_dict()`.")
  return {
    name: (x.float() if x.is_floating_point() else x).numpy()
    for name, x in content.items()
  }, {}


def _unreadable(path: pathlib.Path, error: Exception) -> ValueError:
  return ValueError(
    f"{path} cannot be read, perhaps it is truncated ({error}); get it again."
  )
