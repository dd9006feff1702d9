"""The refit classifier of a run."""

from collections.abc import Mapping
import os
import pathlib
from typing import Any
import zlib

from flax import traverse_util
import numpy as np
import safetensors
from safetensors import numpy as safetensors_numpy

from pnjax import probe

# The classifiers of a run.
CLASSIFIERS = ("refit", "softmax")

FILE = "refit.safetensors"


def has_refit(workdir: str | os.PathLike) -> bool:
  """Return whether a run has a refit classifier."""
  return (pathlib.Path(workdir) / FILE).exists()


def write_refit(
  workdir: pathlib.Path,
  classifier: probe.LinearClassifier,
  variables: Mapping[str, Any],
) -> None:
  """Write the refit classifier of a run.

  Args:
    workdir: Folder of the run.
    classifier: The classifier.
    variables: Variables of the network whose pooled vectors it was fit to.
  """
  arrays = {
    "kernel": np.asarray(classifier.kernel),
    "bias": np.asarray(classifier.bias),
  }
  metadata = {"network": _network_checksum(variables), "arrays": _checksum(arrays)}
  path = workdir / FILE
  temporary = path.with_suffix(".tmp")
  safetensors_numpy.save_file(arrays, temporary, metadata)
  os.chmod(temporary, 0o644)  # It is private otherwise.
  temporary.replace(path)


def read_refit(
  workdir: str | os.PathLike, variables: Mapping[str, Any]
) -> probe.LinearClassifier:
  """Return the refit classifier of a run.

  Args:
    workdir: Folder of the run.
    variables: Variables of the network.

  Raises:
    FileNotFoundError: if the run has none.
    ValueError: if it is damaged, or belongs to another network.
  """
  path = pathlib.Path(workdir) / FILE
  advice = f"`python -m experiments.refit --workdir={workdir}` makes one."
  if not path.exists():
    raise FileNotFoundError(f"{workdir} has no refit classifier; {advice}")
  try:
    with safetensors.safe_open(path, "np") as file:
      metadata = file.metadata() or {}
      arrays = {name: file.get_tensor(name) for name in ("kernel", "bias")}
  except safetensors.SafetensorError as error:
    raise ValueError(f"{path} is damaged ({error}); {advice}") from error
  if metadata.get("arrays") != _checksum(arrays):
    raise ValueError(f"{path} is damaged: its numbers have changed; {advice}")
  if metadata.get("network") != _network_checksum(variables):
    raise ValueError(f"{path} belongs to another network than the run has; {advice}")
  return probe.LinearClassifier(**arrays)


def _network_checksum(variables: Mapping[str, Any]) -> str:
  """Return a checksum of everything below the classifier."""
  flat = traverse_util.flatten_dict(dict(variables), sep="/")
  return _checksum(
    {
      name: np.asarray(x)
      for name, x in flat.items()
      if not name.startswith("params/classifier/")
    }
  )


def _checksum(arrays: Mapping[str, np.ndarray]) -> str:
  value = 0
  for name in sorted(arrays):
    value = zlib.crc32(name.encode(), value)
    value = zlib.crc32(np.ascontiguousarray(arrays[name]).data, value)
  return f"{value:08x}"
