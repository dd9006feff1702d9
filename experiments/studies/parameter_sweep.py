"""A sweep of one field of a config, by cross-validation on training images."""

from collections.abc import Callable
from collections.abc import Sequence
import math
import os
import pathlib
from typing import Any

import ml_collections
import numpy as np

from experiments.studies import rows
from experiments.studies import stored
from experiments.studies import sweep_files
from pnjax import config as config_lib
from pnjax import data
from pnjax import models
from pnjax import probe
from pnjax import runs
from pnjax import train

SUGGESTED = sweep_files.SUGGESTED

# Pooling fields that are numbers and add no weights that would have to be learned.
_PARAMETERS = (
  *models.PARAMETER_FIELDS,
  "lam",
  "beta",
  "num_pivots",
  "alpha",
  "sigma",
  "trace_power",
  "kappa",
)


def run_sweep(
  config: ml_collections.ConfigDict,
  workdir: str | os.PathLike,
  *,
  param: str,
  values: Sequence[float | str],
  num_folds: int = 5,
  finetune: bool = False,
  cache: str | os.PathLike | None = None,
  command: str | None = None,
) -> dict[str, Any]:
  """Evaluate the values that are not stored, and write the sweep.

  Args:
    config: Config of a method.
    workdir: Folder for the sweep.
    param: Field of the pooling, such as `"pooling.beta"`; with `finetune`, any field
      that is a number.
    values: Values of the field.
    num_folds: Number of folds of the training images.
    finetune: Whether to train as the config says instead of using frozen features.
    cache: Folder of cached features.
    command: Command that makes the sweep, which is written below it.

  Returns:
    The contents of `sweep.json`.
  """
  workdir = pathlib.Path(workdir)
  stored.check_folders(workdir=workdir, cache=cache)
  config_lib.check_fields(config)
  _check_field(config, param, finetune)
  if not values:
    raise ValueError("--values is empty, expected numbers.")
  if len(set(values)) < len(values):
    raise ValueError(
      f"--values is {','.join(map(str, values))}, expected different numbers."
    )
  configs = [_with_value(config, param, value) for value in values]
  if finetune:
    for config_ in configs:
      train.check_config(config_, num_hosts=1)
  split, _ = data.open_splits(config.dataset)
  if not 2 <= num_folds <= len(split):
    raise ValueError(
      f"--folds is {num_folds}, expected 2 to {len(split)}, the number of images."
    )
  if finetune:
    compute = _compute_by_training(num_folds, cache)
  else:
    split = _subset(split, config.seed)
    compute = _compute_from_kernels(config, split, num_folds, cache)
  dependencies = {
    "num_folds": num_folds,
    "images": split.fingerprint,
    "weights": rows.weights_digest(config),
  }
  classifier = config.classifier.default if finetune else "frozen"
  points = []
  for value, config_ in zip(values, configs, strict=True):
    point = compute(config_, param, value, dependencies, workdir)
    points.append(point)
    accuracies = sweep_files.accuracies(point).items()
    parts = ", ".join(f"{name} {text}" for name, text in accuracies)
    print(f"{sweep_files.label(param, point):30} {parts}", flush=True)
  sweep = {
    "param": param,
    "dataset": config.dataset.name,
    "backbone": config.backbone.name,
    "split": config.dataset.split,
    "num_folds": num_folds,
    "classifier": classifier,
    "points": points,
    "best": max(points, key=lambda p: np.mean(p["accuracies"][classifier]))["used"],
    "command": command,
    "config": config.to_dict(),
    **runs.environment(),
  }
  sweep_files.write(sweep, workdir)
  return sweep


def parse_value(text: str) -> float | str:
  """Return a value of `--values`: a number, or `SUGGESTED`."""
  try:
    return text if text == SUGGESTED else float(text)
  except ValueError as error:
    message = f"--values has {text!r}, expected numbers or {SUGGESTED}."
    raise ValueError(message) from error


def _check_field(config: ml_collections.ConfigDict, param: str, finetune: bool) -> None:
  """Raise ValueError if a field cannot be swept."""
  known = [f"pooling.{field}" for field in _PARAMETERS]
  if param in known:
    return
  former = config_lib.explain_former_field(param)
  if former:
    raise ValueError(f"--param is {param!r}: {former}.")
  if not finetune:
    raise ValueError(
      f"--param is {param!r}, expected one of {', '.join(known)}, or --finetune for "
      "other fields."
    )
  config_lib.check_field(config, param)
  group, _, name = param.partition(".")
  if not name or config[group].get_type(name) not in (int, float):
    raise ValueError(
      f"--param is {param!r}, expected a field of a group that is a number, such as "
      "classifier.dropout."
    )


def _with_value(
  config: ml_collections.ConfigDict, param: str, value: float | str
) -> ml_collections.ConfigDict:
  config = config.copy_and_resolve_references()
  group, name = param.split(".")
  kind = config[group].get_type(name)
  with config.ignore_type():
    config[group][name] = None if value == SUGGESTED else _typed(param, value, kind)
  if value == SUGGESTED and name not in models.missing_parameters(config):
    raise ValueError(f"--values has suggested, but {param} is not suggested here.")
  config_lib.check_values(config)
  models.check_pooling(config)
  return config


def _typed(param: str, value: float | str, kind: type) -> float | int:
  value = float(value)
  if not math.isfinite(value):
    raise ValueError(f"--values has {value}, expected finite numbers.")
  if kind is not int:
    return value
  if value != int(value):
    raise ValueError(f"--values has {value}, expected whole numbers for {param}.")
  return int(value)


def _subset(split: data.Split, seed: int) -> data.Split:
  """Return a split, or a stratified part of one that is too large for ridge."""
  num_parts = -(-len(split) // probe.MAX_ROWS)
  if num_parts == 1:
    return split
  parts = data.stratified_folds(split.labels, num_parts, seed)
  part = split.subset(np.flatnonzero(parts == 0))
  print(f"sweeps {len(part)} of the {len(split)} images of {split.split}", flush=True)
  return part


def _compute_from_kernels(
  config: ml_collections.ConfigDict,
  split: data.Split,
  num_folds: int,
  cache: str | os.PathLike | None,
) -> Callable[..., dict[str, Any]]:
  """Return a function that computes a point from frozen features, unless it is stored.

  Args:
    config: Config of the sweep.
    split: Images to train on.
    num_folds: Number of folds.
    cache: Folder of cached features.
  """
  frozen = probe.load_frozen_features(config, [(split, split)], cache)
  folds = data.stratified_folds(frozen.labels, num_folds, config.seed)

  def compute_point(config, param, value, dependencies, workdir):
    suggested = probe.suggest_parameters(config, frozen)
    fields = config_lib.relevant_fields(rows.relevant_fields(config))

    def compute() -> dict[str, Any]:
      label = f"{param} = {value}"
      kernel = probe.kernel_of_config(config, frozen, suggested, label)
      accuracies = probe.cross_validate(
        kernel, frozen.labels, frozen.num_classes, folds
      )
      return {
        "used": suggested[param.split(".")[1]] if value == SUGGESTED else value,
        "accuracies": {"frozen": (100 * accuracies).tolist()},
      }

    return stored.load_or_compute(
      workdir / "points",
      f"{param}-{value}",
      {**dependencies, "value": value, "config": fields, "suggested": suggested},
      compute,
    )

  return compute_point


def _compute_by_training(
  num_folds: int, cache: str | os.PathLike | None
) -> Callable[..., dict[str, Any]]:
  """Return a function that computes a point from runs, unless it is stored.

  Args:
    num_folds: Number of folds, for each of which there is a run.
    cache: Folder of cached features.
  """

  def compute_point(config, param, value, dependencies, workdir):
    fields = config_lib.relevant_fields(config.to_dict())
    dependencies = {**dependencies, "value": value, "config": fields}
    folder = f"{param}-{value}-{stored.dependency_digest(dependencies)}"

    def compute() -> dict[str, Any]:
      accuracies: dict[str, list[float]] = {"softmax": [], "refit": []}
      for fold in range(1, num_folds + 1):
        own = config.copy_and_resolve_references()
        own.dataset.fold = f"{fold}/{num_folds}"
        run = workdir / "runs" / folder / f"fold-{fold}"
        result = rows.finished_run(own, run, cache)
        accuracies["softmax"].append(100 * result["top1"])
        accuracies["refit"].append(100 * result["refit"]["top1"])
      info = runs.read_model_info(run)
      assert info is not None  # The run is finished.
      used = info.suggested[param.split(".")[1]] if value == SUGGESTED else value
      return {"used": used, "accuracies": accuracies}

    return stored.load_or_compute(
      workdir / "points", f"{param}-{value}", dependencies, compute
    )

  return compute_point
