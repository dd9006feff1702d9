"""Trained models as folders that run without pnjax and Flax."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
import contextlib
import dataclasses
import os
import pathlib
import shutil
from typing import Any

import jax
from jax import export as jax_export
import numpy as np

from pnjax import pretrained
from pnjax import runtime
from pnjax.runs import _environment
from pnjax.runs import _exported_predict
from pnjax.runs import _trained
from pnjax.runs import _workdir
from pnjax.runs._writing import writing

# Platforms that the function is lowered for.
_PLATFORMS = ("cpu", "cuda", "tpu")
_CONFIG = "config.json"
_FUNCTION = "function.bin"
_PREDICT = "predict.py"
# Marks the config of an exported model, so that nothing else is ever replaced.
_FORMAT = "pnjax exported model 1"


def export(
  workdir: str | os.PathLike,
  output: str | os.PathLike,
  classifier: str | None = None,
) -> pathlib.Path:
  """Write the model of a finished run as a folder that needs neither pnjax nor Flax.

  The folder has `function.bin`, the function from weights and uint8 images to
  probabilities for batches of any size on CPUs, NVIDIA GPUs and TPUs (see
  `jax.export`); `weights.safetensors`; `config.json`; and `predict.py`, which runs it.
  It is written completely or not at all.

  Args:
    workdir: Folder of the run.
    output: Folder to write. If it exists, it must be empty or an earlier export, which
      is replaced as a whole.
    classifier: "refit", "softmax", or None for the one that the run prefers.

  Returns:
    The folder.

  Raises:
    FileNotFoundError: if the folder holds no run, or one that is not finished.
    FileExistsError: if `output` has something else in it.
  """
  output = pathlib.Path(output)
  _check_replaceable(output)
  config = _workdir.read_config(workdir)
  result = _workdir.read_finished(workdir)
  trained = _trained.load(workdir, classifier)
  advice = "Nothing was written or replaced: make room, or choose another folder."
  with writing("exported models", output, advice), _replaced(output) as folder:
    pretrained.save_network(
      folder / pretrained.NETWORK_FILE,
      trained.variables,
      config.backbone.name,
      trained.backbone.recipe,
    )
    (folder / _FUNCTION).write_bytes(_serialized(trained))
    shutil.copyfile(_exported_predict.__file__, folder / _PREDICT)
    runtime.write_json(folder / _CONFIG, _describe(trained, result, folder))
  return output


def load_exported(
  folder: str | os.PathLike,
) -> tuple[dict[str, Any], Callable[[np.ndarray], jax.Array]]:
  """Load an exported model as its own `predict.py` does.

  Args:
    folder: Folder that `export` wrote.

  Returns:
    Its config, and the function from uint8 images of the input size, `[B, S, S, 3]` (or
    `[B, 12, S, S, 3]`), to probabilities `[B, C]`.
  """
  return _exported_predict.load(pathlib.Path(folder))


def _serialized(trained: _trained.TrainedModel) -> bytes:
  """Return the function from weights and images to probabilities, serialized."""

  @jax.jit
  def probabilities(weights: Mapping[str, jax.Array], images: jax.Array) -> jax.Array:
    return trained.probabilities(pretrained.nested_variables(weights), images)

  dataset = trained.config.dataset
  crops = () if dataset.num_crops == 1 else (dataset.num_crops,)
  (batch,) = jax_export.symbolic_shape("b")
  shape = (batch, *crops, dataset.image_size, dataset.image_size, 3)
  weights = pretrained.flat_variables(trained.variables)
  exported = jax_export.export(probabilities, platforms=_PLATFORMS)(
    jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), weights),
    jax.ShapeDtypeStruct(shape, np.uint8),
  )
  return bytes(exported.serialize())


def _describe(
  trained: _trained.TrainedModel, result: Mapping[str, Any], folder: pathlib.Path
) -> dict[str, Any]:
  """Return the config of an exported model."""
  config, backbone = trained.config, trained.backbone
  dataset = config.dataset
  metrics = _workdir.metrics_by_classifier(result)[trained.classifier]
  files = (_FUNCTION, pretrained.NETWORK_FILE)
  return {
    "format": _FORMAT,
    "class_names": list(trained.class_names),
    # What `predict.py` does to an image,
    "image_size": dataset.image_size,
    "resize": dataset.resize,
    "num_crops": dataset.num_crops,
    "resize_side": dataset.resize_side,
    # and what the function does to its pixels.
    "preprocessing": dataclasses.asdict(backbone.preprocessing),
    "backbone": config.backbone.name,
    "recipe": backbone.recipe,
    "classifier": trained.classifier,
    "dataset": {"name": dataset.name, "split": dataset.split},
    "accuracy": {n: metrics[n] for n in ("top1", "mean_per_class", "num_examples")},
    "platforms": _PLATFORMS,
    **_environment.environment(),
    "sha256": {name: runtime.file_digest(folder / name) for name in files},
  }


def _check_replaceable(output: pathlib.Path) -> None:
  """Raise an error if the folder has anything but an earlier export in it."""
  if not output.exists():
    return
  if not output.is_dir():
    raise FileExistsError(f"the output is {output}, a file, expected a folder.")
  if not any(output.iterdir()):
    return
  config = output / _CONFIG
  try:
    earlier = runtime.read_json(config)
  except (OSError, ValueError):  # Nothing that counts as an export.
    earlier = {}
  if earlier.get("format") != _FORMAT:
    raise FileExistsError(
      f"the output {output} exists and is no exported model, expected a new or an "
      "empty folder; choose another one."
    )


@contextlib.contextmanager
def _replaced(output: pathlib.Path) -> Iterator[pathlib.Path]:
  """Yield a new folder that takes the place of another one if all goes well."""
  output = output.absolute()
  output.parent.mkdir(parents=True, exist_ok=True)
  with runtime.temporary_folder(output.parent, f".{output.name}.") as temporary:
    folder = temporary / "new"
    folder.mkdir()
    yield folder
    if output.exists():
      output.rename(temporary / "old")
    folder.rename(output)
