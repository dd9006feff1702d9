"""Sweeps of a parameter: their points, computed or kept, and how they are written."""

from collections.abc import Mapping
from collections.abc import Sequence
import math
import os
import pathlib
from typing import Any

from matplotlib.figure import Figure
import ml_collections
import numpy as np

from experiments import frozen as frozen_lib
from experiments import kept
from pnjax import data
from pnjax.train import heads
from pnjax.train import inputs
from pnjax.train import kernel
from pnjax.train import workdir as workdir_lib

SUGGESTED = "suggested"

# Fields of a head that are numbers and bring no weights that would have to be learned.
_PARAMETERS = (
  "power",
  "eta",
  "gamma_prime",
  "eta_prime",
  "lam",
  "beta",
  "num_pivots",
  "alpha",
  "sigma",
  "trace_power",
  "kappa",
)


def make(
  config: ml_collections.ConfigDict,
  workdir: str | os.PathLike,
  *,
  param: str,
  values: Sequence[float | str],
  num_folds: int = 5,
  cache: str | None = None,
) -> dict[str, Any]:
  """Evaluates the values that are missing, and writes the outcome.

  Args:
    config: of a method.
    workdir: folder for the outcome.
    param: field of the config that belongs to its head.
    values: of the field.
    num_folds: folds of the training pictures.
    cache: folder of cached features.

  Returns:
    What `sweep.json` holds.
  """
  workdir = pathlib.Path(workdir)
  group, _, name = param.partition(".")
  if group != "head" or name not in _PARAMETERS:
    known = ", ".join(f"head.{field}" for field in _PARAMETERS)
    raise ValueError(f"--param is {param!r}, expected one of {known}.")
  if not values:
    raise ValueError("--values is empty, expected numbers.")
  configs = [_with_value(config, name, value) for value in values]
  train, _ = inputs.open_splits(config.dataset)
  if not 2 <= num_folds <= len(train):
    raise ValueError(
      f"--folds is {num_folds}, expected 2 to {len(train)}, the number of pictures."
    )
  workdir.mkdir(parents=True, exist_ok=True)
  train = _enough(train, config.seed)
  frozen = frozen_lib.load(config, [(train, train)], cache)
  folds = split_into_folds(frozen.labels, num_folds, config.seed)
  asked = {
    "num_folds": num_folds,
    "pictures": train.fingerprint,
    "weights": kept.digest(config.backbone.weights),
  }
  points = []
  for value, config_ in zip(values, configs, strict=True):
    point = _point(config_, name, value, frozen, folds, asked, workdir)
    points.append(point)
    print(_line(name, point), flush=True)
  best = max(points, key=lambda point: point["mean"])
  sweep = {
    "param": param,
    "dataset": config.dataset.name,
    "backbone": config.backbone.name,
    "split": config.dataset.split,
    "num_folds": num_folds,
    "points": points,
    "best": best["used"],
    "config": config.to_dict(),
    **workdir_lib.environment(),
  }
  workdir_lib.write_json(workdir / "sweep.json", sweep)
  workdir_lib.write_text(workdir / "sweep.md", _markdown(sweep))
  _draw(sweep, workdir / "sweep.png")
  print(f"best: {param} = {best['used']:g}; written to {workdir}/sweep.md, .json, .png")
  return sweep


def _enough(split: data.Split, seed: int) -> data.Split:
  """Returns a split, or of a large one a part in which all classes have their share."""
  num_parts = -(-len(split) // kernel.MAX_PICTURES)
  if num_parts == 1:
    return split
  parts = split_into_folds(split.labels, num_parts, seed)
  part = split.subset(np.flatnonzero(parts == 0))
  print(f"sweeps {len(part)} of the {len(split)} pictures of {split.split}", flush=True)
  return part


def parse(text: str) -> float | str:
  """Returns a value of `--values`: a number, or `SUGGESTED`."""
  try:
    return text if text == SUGGESTED else float(text)
  except ValueError as error:
    message = f"--values has {text!r}, expected numbers or {SUGGESTED}."
    raise ValueError(message) from error


def split_into_folds(labels: np.ndarray, num_folds: int, seed: int) -> np.ndarray:
  """Returns the number of the fold of each example; classes are spread evenly."""
  rng = np.random.default_rng(seed)
  folds = np.empty(len(labels), int)
  start = 0
  for label in np.unique(labels):
    members = rng.permutation(np.flatnonzero(labels == label))
    # Classes begin with different folds, so that the folds are of equal size.
    folds[members] = (start + np.arange(len(members))) % num_folds
    start += len(members)
  return folds


def _with_value(config, name, value) -> ml_collections.ConfigDict:
  config = config.copy_and_resolve_references()
  with config.ignore_type():
    config.head[name] = None if value == SUGGESTED else _typed(name, value)
  if value == SUGGESTED and name not in heads.missing(config.head):
    raise ValueError(f"--values has suggested, but head.{name} is not suggested here.")
  heads.check(config.head)
  return config


def _point(config, name, value, frozen, folds, asked, workdir) -> dict[str, Any]:
  """Returns the accuracies of a value, computed or kept."""
  suggested = frozen_lib.suggest(config, frozen)
  used = suggested[name] if value == SUGGESTED else value
  fields = frozen_lib.relevant(config)
  asked = {**asked, "value": value, "config": fields, "suggested": suggested}
  label = f"{name} = {value}"

  def compute() -> dict[str, Any]:
    products = frozen_lib.kernel(config, frozen, suggested, label)
    accuracies = []
    for fold in range(folds.max() + 1):
      train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
      predictions, _ = frozen_lib.classify(
        products, frozen.labels, frozen.num_classes, train, test
      )
      accuracies.append(100 * float(np.mean(predictions == frozen.labels[test])))
    return {
      "used": used,
      "accuracies": accuracies,
      "mean": float(np.mean(accuracies)),
      "deviation": float(np.std(accuracies, ddof=1)),
    }

  return kept.answer(workdir / "points", f"{name}-{value}", asked, compute)


def _typed(name: str, value: float) -> float | int:
  if not math.isfinite(value):
    raise ValueError(f"--values has {value}, expected finite numbers.")
  if name != "num_pivots":
    return value
  if value != int(value):
    raise ValueError(f"--values has {value}, expected whole numbers for head.{name}.")
  return int(value)


def _line(name: str, point: Mapping[str, Any]) -> str:
  label = f"{name} = {point['used']:g}"
  label += " (suggested)" if point["value"] == SUGGESTED else ""
  return f"{label:30} {point['mean']:.2f} ± {point['deviation']:.2f}"


def _markdown(sweep: Mapping[str, Any]) -> str:
  lines = [
    f"| {sweep['param']} | top-1, %, of {sweep['num_folds']} folds |",
    "|---|---:|",
  ]
  for point in sweep["points"]:
    label = f"{point['used']:g}"
    label += " (suggested)" if point["value"] == SUGGESTED else ""
    figure = f"{point['mean']:.2f} ± {point['deviation']:.2f}"
    lines.append(
      f"| {label} | {f'**{figure}**' if point['used'] == sweep['best'] else figure} |"
    )
  text = (
    f"{_title(sweep)}; frozen, training pictures "
    f"({sweep['split']}) only; ± is the deviation over folds."
  )
  return "\n".join([*lines, "", text, ""])


def _title(sweep: Mapping[str, Any]) -> str:
  head = sweep["config"]["head"]
  spectral = "spectral " if head["spectral"] else ""
  return f"{sweep['dataset']}, {sweep['backbone']}, {spectral}{head['power_norm']}"


def _draw(sweep: Mapping[str, Any], path: pathlib.Path) -> None:
  figure = Figure(figsize=(5, 3.5), layout="constrained")
  ax = figure.subplots()
  given = sorted(
    (p for p in sweep["points"] if p["value"] != SUGGESTED), key=lambda p: p["used"]
  )
  errors = [p["deviation"] / np.sqrt(sweep["num_folds"]) for p in given]
  used, means = [p["used"] for p in given], [p["mean"] for p in given]
  if given:
    ax.errorbar(used, means, errors, marker="o", capsize=3, color="#4878a8")
  for point in sweep["points"]:
    if point["value"] == SUGGESTED:
      ax.plot(point["used"], point["mean"], "D", color="#d1605e", label="suggested")
      ax.legend(frameon=False)
  if given and min(used) > 0 and max(used) / min(used) > 20:
    ax.set_xscale("log")
  ax.set(
    xlabel=sweep["param"],
    ylabel="top-1, %, cross-validated",
    title=_title(sweep),
  )
  ax.grid(alpha=0.3)
  ax.spines[["top", "right"]].set_visible(False)
  figure.savefig(path, dpi=120)
