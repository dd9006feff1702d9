"""The files of a run that are neither checkpoints nor records."""

from collections.abc import Mapping
from collections.abc import Sequence
import os
import pathlib
from typing import Any
from typing import NamedTuple
import zipfile
import zlib

import ml_collections
import numpy as np

from pnjax import config as config_lib
from pnjax import pretrained
from pnjax import runtime

_CONFIG = "config.json"
_FINGERPRINTS = "fingerprints.json"
_MODEL = "model.json"
CLASSES = "classes.txt"
_RESULT = "result.json"
PREDICTIONS = "predictions.npz"
_CHECKPOINTS = "checkpoints"
# What every result has.
_METRICS = ("loss", "top1", "mean_per_class", "per_class", "num_examples")
_CIRCUMSTANCES = ("wall_seconds", "devices", "versions", "git_revision")
# Predictions by classifier. As in the result, those of the softmax layer come first.
_ARRAYS = {"softmax": "prediction", "refit": "refit"}


class ModelInfo(NamedTuple):
  """What a model is built from, in addition to the config of its run.

  Attributes:
    recipe: Name of the recipe of its pretrained weights, if any.
    suggested: Pooling parameters that the config left open.
  """

  recipe: str | None
  suggested: dict[str, float]


def create_workdir(workdir: pathlib.Path) -> None:
  """Create the folder of a run; raise OSError if it cannot be written to."""
  runtime.make_writable(workdir, "the workdir", "choose another one")


def prepare_workdir(
  workdir: pathlib.Path,
  config: ml_collections.ConfigDict,
  fingerprints: Mapping[str, str | None],
  devices: runtime.Devices,
) -> None:
  """Write the config of a new run, or check that the folder holds the same run.

  Args:
    workdir: Folder of the run, the same for all hosts.
    config: Run config.
    fingerprints: Fingerprints of the images to train on (`train`) and to evaluate on
      (`test`), and of the `weights` to start from.
    devices: Devices of the run; the first host writes.

  Raises:
    ValueError: if it holds a run of another config, other images or other weights.
  """
  if not (workdir / _CONFIG).exists() and (workdir / _CHECKPOINTS).exists():
    raise ValueError(
      f"{workdir} has checkpoints, but no {_CONFIG}. {_copy_advice(_CONFIG)}"
    )
  if devices.is_first and not (workdir / _CONFIG).exists():
    runtime.write_json(workdir / _FINGERPRINTS, dict(fingerprints))
    runtime.write_json(workdir / _CONFIG, config.to_dict())
  devices.barrier()
  _check_same_config(read_config(workdir), config, workdir)
  stored = read_fingerprints(workdir)
  if any(stored.get(split) != fingerprints[split] for split in ("train", "test")):
    raise ValueError(
      f"{workdir} holds a run on other images than {config.dataset.name} has now. "
      "Choose another workdir."
    )
  if stored.get("weights") != fingerprints["weights"]:
    raise ValueError(
      f"{workdir} holds a run that started from other weights: those in "
      f"{config.backbone.weights} have changed since. Choose another workdir."
    )


def _check_same_config(
  stored: ml_collections.ConfigDict,
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
) -> None:
  old, new = (config_lib.relevant_fields(c.to_dict()) for c in (stored, config))
  different = [
    f"{name} was {old.get(name)!r} and is {new.get(name)!r}"
    for name in sorted(old | new)
    if old.get(name) != new.get(name)
  ]
  if different:
    raise ValueError(
      f"{workdir} holds a run with another config: {'; '.join(different)}. Continue it "
      "with its own config, or choose another workdir."
    )


def read_config(workdir: str | os.PathLike) -> ml_collections.ConfigDict:
  """Return the config of a run."""
  path = pathlib.Path(workdir) / _CONFIG
  if not path.exists():
    raise FileNotFoundError(f"{workdir} holds no run: it has no {_CONFIG}.")
  try:
    fields = runtime.read_json(path)
  except ValueError as error:
    raise ValueError(f"{error} {_copy_advice(_CONFIG)}") from error
  if "class_names" in fields:
    raise ValueError(f"{workdir} is an exported model, expected the folder of a run.")
  config = ml_collections.ConfigDict(fields)
  try:
    config_lib.check_fields(config)
  except ValueError as error:
    raise ValueError(
      f"{workdir} holds a run of an earlier version: {error} Train again in another "
      "workdir."
    ) from error
  return config.lock()


def read_fingerprints(workdir: str | os.PathLike) -> dict[str, str | None]:
  """Return the fingerprints of the images and weights of a run."""
  try:
    return runtime.read_json(pathlib.Path(workdir) / _FINGERPRINTS)
  except (FileNotFoundError, ValueError) as error:
    raise ValueError(
      f"{workdir} has no readable {_FINGERPRINTS}: {error} "
      f"{_copy_advice(_FINGERPRINTS)}"
    ) from error


def _copy_advice(name: str) -> str:
  """Return where to get a file that says which run it is."""
  return (
    f"Begin the same run in a new workdir and copy its {name} to here, or choose "
    "another workdir."
  )


def repair_advice(workdir: str | os.PathLike, name: str) -> str:
  """Return how to get a file back that a run can write again."""
  return (
    f"Remove {name} and {_RESULT} from {workdir}, if they are there, and the command "
    "that began the run writes them again."
  )


def write_model_info(workdir: pathlib.Path, info: ModelInfo) -> None:
  """Write the model info of a run."""
  runtime.write_json(workdir / _MODEL, info._asdict())


def read_model_info(workdir: str | os.PathLike) -> ModelInfo | None:
  """Return the model info of a run; None if it has not been written yet."""
  path = pathlib.Path(workdir) / _MODEL
  if not path.exists():
    return None
  advice = repair_advice(workdir, _MODEL)
  try:
    info = ModelInfo(**runtime.read_json(path))
  except TypeError as error:
    raise ValueError(f"{path} has other fields than expected. {advice}") from error
  except ValueError as error:
    raise ValueError(f"{error} {advice}") from error
  if info.recipe not in (None, *pretrained.RECIPES):
    raise ValueError(f"{path} names the unknown recipe {info.recipe!r}. {advice}")
  if not isinstance(info.suggested, dict):
    raise ValueError(
      f"{path} suggests {info.suggested!r}, expected an object. {advice}"
    )
  return info


def require_model_info(workdir: str | os.PathLike) -> ModelInfo:
  """Return the model info of a run that has begun to train."""
  info = read_model_info(workdir)
  if info is None:
    raise FileNotFoundError(
      f"{workdir} has no {_MODEL}. {repair_advice(workdir, _MODEL)}"
    )
  return info


def write_class_names(workdir: pathlib.Path, names: Sequence[str]) -> None:
  """Write the classes of a run."""
  runtime.write_text(workdir / CLASSES, "\n".join([*names, ""]))


def read_class_names(workdir: str | os.PathLike) -> list[str]:
  """Return the classes of a run, in the order of its outputs."""
  path, advice = pathlib.Path(workdir) / CLASSES, repair_advice(workdir, CLASSES)
  if not path.exists():
    raise FileNotFoundError(f"{workdir} has no {CLASSES}. {advice}")
  try:
    text = path.read_text(encoding="utf-8")
  except UnicodeDecodeError as error:
    raise ValueError(f"{path} is damaged: {error}. {advice}") from error
  names = text.split("\n")[:-1]  # `splitlines` knows more characters that end a line.
  result = read_result(workdir)
  if result is not None and names != list(result["per_class"]):
    raise ValueError(f"{path} has other classes than {_RESULT} beside it. {advice}")
  return names


def write_result(
  workdir: pathlib.Path,
  result: Mapping[str, Any],
  labels: np.ndarray,
  predictions: Mapping[str, np.ndarray],
) -> None:
  """Write the result of a run, after the predictions of its classifiers."""
  arrays: dict[str, Any] = {_ARRAYS[name]: x for name, x in predictions.items()}
  temporary = workdir / f".{PREDICTIONS}"
  np.savez(temporary, label=labels, **arrays)
  temporary.replace(workdir / PREDICTIONS)
  runtime.write_json(workdir / _RESULT, result)


def read_result(workdir: str | os.PathLike) -> dict[str, Any] | None:
  """Return the result of a run; None if the run is not finished."""
  path = pathlib.Path(workdir) / _RESULT
  if not path.exists():
    return None
  advice = "Remove it, and the command that began the run writes it again."
  try:
    result = runtime.read_json(path)
  except ValueError as error:
    raise ValueError(f"{error} {advice}") from error
  missing = [name for name in (*_METRICS, *_CIRCUMSTANCES) if name not in result]
  refit = result.get("refit", dict.fromkeys(_METRICS))
  missing += [f"refit.{name}" for name in _METRICS if name not in refit]
  if missing:
    raise ValueError(f"{path} is damaged: it has no {', '.join(missing)}. {advice}")
  return result


def read_finished(workdir: str | os.PathLike) -> dict[str, Any]:
  """Return the result of a run; raise FileNotFoundError if it is not finished."""
  result = read_result(workdir)
  if result is None:
    raise FileNotFoundError(
      f"the run in {workdir} is not finished: it has no {_RESULT}. The command that "
      "began it continues it."
    )
  return result


def metrics_by_classifier(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
  """Return the metrics of each classifier of a result, the softmax layer first."""
  metrics = {"softmax": result}
  return metrics | {"refit": result["refit"]} if "refit" in result else metrics


def read_predictions(
  workdir: str | os.PathLike, classifier: str = "softmax"
) -> tuple[np.ndarray, np.ndarray]:
  """Return the labels and predicted classes of the images evaluated on."""
  path = pathlib.Path(workdir) / PREDICTIONS
  try:
    with open(path, "rb") as file, np.load(file) as arrays:
      return arrays["label"], arrays[_ARRAYS[classifier]]
  except (
    *(OSError, EOFError, KeyError, TypeError, ValueError),
    *(zipfile.BadZipFile, zlib.error),
  ) as error:
    raise ValueError(
      f"{path} is missing or damaged: {error}. {repair_advice(workdir, PREDICTIONS)}"
    ) from error
