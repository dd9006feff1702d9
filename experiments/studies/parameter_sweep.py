"""A sweep of one pooling parameter, by cross-validation on training images."""

from collections.abc import Mapping
from collections.abc import Sequence
import math
import os
import pathlib
from typing import Any

from matplotlib.figure import Figure
import matplotlib.style
import ml_collections
import numpy as np

from experiments.studies import rows
from experiments.studies import stored
from pnjax import config as config_lib
from pnjax import data
from pnjax import models
from pnjax import probe
from pnjax import runs
from pnjax import runtime

SUGGESTED = "suggested"

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
  cache: str | os.PathLike | None = None,
) -> dict[str, Any]:
  """Evaluate the values that are not stored, and write the sweep.

  Args:
    config: Config of a method.
    workdir: Folder for the sweep.
    param: Field of the pooling, such as `"pooling.beta"`.
    values: Values of the field.
    num_folds: Number of folds of the training images.
    cache: Folder of cached features.

  Returns:
    The contents of `sweep.json`.
  """
  workdir = pathlib.Path(workdir)
  config_lib.check_fields(config)
  name = _field_name(param)
  if not values:
    raise ValueError("--values is empty, expected numbers.")
  configs = [_with_value(config, name, value) for value in values]
  train, _ = data.open_splits(config.dataset)
  if not 2 <= num_folds <= len(train):
    raise ValueError(
      f"--folds is {num_folds}, expected 2 to {len(train)}, the number of images."
    )
  workdir.mkdir(parents=True, exist_ok=True)
  train = _subset(train, config.seed)
  frozen = probe.load_frozen_features(config, [(train, train)], cache)
  folds = probe.stratified_folds(frozen.labels, num_folds, config.seed)
  dependencies = {
    "num_folds": num_folds,
    "images": train.fingerprint,
    "weights": rows.weights_digest(config),
  }
  points = []
  for value, config_ in zip(values, configs, strict=True):
    point = _point(config_, name, value, frozen, folds, dependencies, workdir)
    points.append(point)
    print(f"{_label(name, point):30} {_accuracy(point)}", flush=True)
  sweep = {
    "param": param,
    "dataset": config.dataset.name,
    "backbone": config.backbone.name,
    "split": config.dataset.split,
    "num_folds": num_folds,
    "points": points,
    "best": max(points, key=lambda point: point["mean"])["used"],
    "config": config.to_dict(),
    **runs.environment(),
  }
  runtime.write_json(workdir / "sweep.json", sweep)
  runtime.write_text(workdir / "sweep.md", _markdown(sweep))
  with matplotlib.style.context("pnjax.plots"):
    _figure(sweep).savefig(workdir / "sweep.png", dpi=120)
  return sweep


def parse_value(text: str) -> float | str:
  """Return a value of `--values`: a number, or `SUGGESTED`."""
  try:
    return text if text == SUGGESTED else float(text)
  except ValueError as error:
    message = f"--values has {text!r}, expected numbers or {SUGGESTED}."
    raise ValueError(message) from error


def _field_name(param: str) -> str:
  group, _, name = param.partition(".")
  if group == "pooling" and name in _PARAMETERS:
    return name
  renamed = config_lib.new_name(param)
  if renamed:
    raise ValueError(f"--param is {param!r}, which is {renamed} now.")
  known = ", ".join(f"pooling.{field}" for field in _PARAMETERS)
  raise ValueError(f"--param is {param!r}, expected one of {known}.")


def _with_value(
  config: ml_collections.ConfigDict, name: str, value: float | str
) -> ml_collections.ConfigDict:
  config = config.copy_and_resolve_references()
  with config.ignore_type():
    config.pooling[name] = None if value == SUGGESTED else _typed(name, value)
  if value == SUGGESTED and name not in models.missing_parameters(config):
    raise ValueError(
      f"--values has suggested, but pooling.{name} is not suggested here."
    )
  models.check_pooling(config)
  return config


def _typed(name: str, value: float | str) -> float | int:
  value = float(value)
  if not math.isfinite(value):
    raise ValueError(f"--values has {value}, expected finite numbers.")
  if name != "num_pivots":
    return value
  if value != int(value):
    raise ValueError(
      f"--values has {value}, expected whole numbers for pooling.{name}."
    )
  return int(value)


def _subset(split: data.Split, seed: int) -> data.Split:
  """Return a split, or a stratified part of one that is too large for ridge."""
  num_parts = -(-len(split) // probe.MAX_IMAGES)
  if num_parts == 1:
    return split
  parts = probe.stratified_folds(split.labels, num_parts, seed)
  part = split.subset(np.flatnonzero(parts == 0))
  print(f"sweeps {len(part)} of the {len(split)} images of {split.split}", flush=True)
  return part


def _point(
  config: ml_collections.ConfigDict,
  name: str,
  value: float | str,
  frozen: probe.FrozenFeatures,
  folds: np.ndarray,
  dependencies: Mapping[str, Any],
  workdir: pathlib.Path,
) -> dict[str, Any]:
  """Return the accuracies of a value, and compute them if they are not stored."""
  suggested = probe.suggest_parameters(config, frozen)
  fields = config_lib.relevant_fields(rows.relevant_fields(config))

  def compute() -> dict[str, Any]:
    kernel = probe.kernel_of_config(config, frozen, suggested, f"{name} = {value}")
    accuracies = 100 * probe.cross_validate(
      kernel, frozen.labels, frozen.num_classes, folds
    )
    return {
      "used": suggested[name] if value == SUGGESTED else value,
      "accuracies": accuracies.tolist(),
      "mean": float(accuracies.mean()),
      "deviation": float(accuracies.std(ddof=1)),
    }

  return stored.load_or_compute(
    workdir / "points",
    f"{name}-{value}",
    {**dependencies, "value": value, "config": fields, "suggested": suggested},
    compute,
  )


def _label(name: str, point: Mapping[str, Any]) -> str:
  suggested = " (suggested)" if point["value"] == SUGGESTED else ""
  return f"{name} = {point['used']:g}{suggested}"


def _accuracy(point: Mapping[str, Any]) -> str:
  return f"{point['mean']:.2f} ± {point['deviation']:.2f}"


def _markdown(sweep: Mapping[str, Any]) -> str:
  lines = [
    f"| {sweep['param']} | top-1, %, over {sweep['num_folds']} folds |",
    "|---|---:|",
  ]
  for point in sweep["points"]:
    accuracy = _accuracy(point)
    if point["used"] == sweep["best"]:
      accuracy = f"**{accuracy}**"
    lines.append(f"| {_label('', point).removeprefix(' = ')} | {accuracy} |")
  text = (
    f"{_title(sweep)}; frozen, training images ({sweep['split']}) only; ± is the "
    "deviation over folds."
  )
  return "\n".join([*lines, "", text, ""])


def _title(sweep: Mapping[str, Any]) -> str:
  pooling = sweep["config"]["pooling"]
  spectral = "spectral " if pooling["spectral"] else ""
  return f"{sweep['dataset']}, {sweep['backbone']}, {spectral}{pooling['power_norm']}"


def _figure(sweep: Mapping[str, Any]) -> Figure:
  figure = Figure(figsize=(5, 3.5))
  ax = figure.subplots()
  given = sorted(
    (p for p in sweep["points"] if p["value"] != SUGGESTED), key=lambda p: p["used"]
  )
  errors = [p["deviation"] / np.sqrt(sweep["num_folds"]) for p in given]
  used, means = [p["used"] for p in given], [p["mean"] for p in given]
  if given:
    ax.errorbar(used, means, errors, marker="o", capsize=3, color="C2")
  for point in sweep["points"]:
    if point["value"] == SUGGESTED:
      ax.plot(point["used"], point["mean"], "D", color="C0", label="suggested")
      ax.legend()
  if given and min(used) > 0 and max(used) / min(used) > 20:
    ax.set_xscale("log")
  ax.set(xlabel=sweep["param"], ylabel="top-1, %, cross-validated", title=_title(sweep))
  return figure
