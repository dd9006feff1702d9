"""Rows of a table: the accuracy of a method on one or more pairs of splits."""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import functools
import os
import pathlib
from typing import Any

import ml_collections
import numpy as np

from experiments.studies import stored
from pnjax import config as config_lib
from pnjax import data
from pnjax import pretrained
from pnjax import probe
from pnjax import runs
from pnjax import runtime
from pnjax import train

# Metrics and correctness per image for each split, and what led to them.
Row = dict[str, Any]
Pair = tuple[data.Split, data.Split]


def choose_protocol(finetune: bool, pairs: Sequence[Pair]) -> str:
  """Return "finetuning", "ridge", or "softmax" for too many images for ridge."""
  if finetune:
    return "finetuning"
  num_images = max(len(train_split) for train_split, _ in pairs)
  return "ridge" if num_images <= probe.MAX_IMAGES else "softmax"


def open_pairs(config: ml_collections.ConfigDict, splits: Sequence[str]) -> list[Pair]:
  """Open pairs of splits to train on and to evaluate on.

  Args:
    config: Run config.
    splits: Names of the splits to train on.
  """
  dataset = config.dataset.to_dict()
  return [
    data.open_splits(ml_collections.ConfigDict({**dataset, "split": split}))
    for split in splits
  ]


def compute_rows(
  configs: Mapping[str, ml_collections.ConfigDict],
  workdir: pathlib.Path,
  pairs: Sequence[Pair],
  protocol: str,
  cache: str | os.PathLike | None,
) -> dict[str, Row]:
  """Return the rows of all methods, and compute those that are not stored.

  Args:
    configs: Configs by method.
    workdir: Folder for rows and runs.
    pairs: Splits to train on, each with the split to evaluate on.
    protocol: "ridge", "softmax" or "finetuning".
    cache: Folder of cached features.
  """
  config = next(iter(configs.values()))
  splits = [train_split.split for train_split, _ in pairs]
  common = {
    "how": protocol,
    "splits": splits,
    "images": [{"train": a.fingerprint, "test": b.fingerprint} for a, b in pairs],
    "weights": weights_digest(config),
  }
  if protocol == "ridge":
    compute = _ridge_rows(config, pairs, cache)
  else:
    compute = _trained_rows(splits, workdir / "runs", cache)
  rows = {}
  for method, config in configs.items():
    fields = relevant_fields(config) if protocol == "ridge" else config.to_dict()
    dependencies = {**common, "config": config_lib.relevant_fields(fields)}
    rows[method] = stored.load_or_compute(
      workdir / "rows",
      method,
      dependencies,
      functools.partial(compute, config, method, dependencies),
    )
    print(_line(method, rows[method]), flush=True)
  return rows


def weights_digest(config: ml_collections.ConfigDict) -> str | None:
  """Return the sha256 of the file of pretrained weights; None without weights."""
  weights = config.backbone.weights
  return weights and runtime.file_digest(pretrained.weights_path(weights))


def relevant_fields(config: ml_collections.ConfigDict) -> dict[str, Any]:
  """Return the groups of a config that ridge regression on features depends on."""
  return {name: config[name].to_dict() for name in ("dataset", "backbone", "pooling")}


def _ridge_rows(
  config: ml_collections.ConfigDict,
  pairs: Sequence[Pair],
  cache: str | os.PathLike | None,
) -> Callable[..., Row]:
  """Return a function that computes rows by ridge regression on cached features."""

  @functools.cache
  def load():
    return probe.load_frozen_features(config, pairs, cache)

  def compute(config, method, dependencies):
    del dependencies
    frozen = load()
    suggested = probe.suggest_parameters(config, frozen)
    kernel = probe.kernel_of_config(config, frozen, suggested, method)
    outcomes = []
    for train_positions, test_positions in frozen.pairs:
      predictions, regularization = probe.classify(
        kernel, frozen, train_positions, test_positions
      )
      labels = frozen.labels[test_positions]
      outcomes.append(
        {
          **_accuracies(labels, predictions, frozen.num_classes),
          "regularization": regularization,
          "right": (predictions == labels).astype(int).tolist(),
        }
      )
    return {"suggested": suggested, "outcomes": outcomes}

  return compute


def _accuracies(
  labels: np.ndarray, predictions: np.ndarray, num_classes: int
) -> dict[str, float]:
  metrics = train.summarize(
    0.0, train.confusion_matrix(labels, predictions, num_classes)
  )
  return {name: metrics[name] for name in ("top1", "mean_per_class")}


def _trained_rows(
  splits: Sequence[str], folder: pathlib.Path, cache: str | os.PathLike | None
) -> Callable[..., Row]:
  """Return a function that computes rows by training as their configs say."""

  def compute(config, method, dependencies):
    outcomes = []
    for split in splits:
      config = config.copy_and_resolve_references()
      config.dataset.split = split
      # Runs with other dependencies stay where they are.
      workdir = folder / f"{method}-{split}-{stored.dependency_digest(dependencies)}"
      result = train.train_and_evaluate(config, workdir, cache=cache)
      if result is None:
        raise KeyboardInterrupt(f"stopped; the same command continues {workdir}.")
      labels, predictions = runs.read_predictions(workdir)
      outcomes.append(
        {
          "top1": result["top1"],
          "mean_per_class": result["mean_per_class"],
          "right": (labels == predictions).astype(int).tolist(),
        }
      )
    return {"outcomes": outcomes}

  return compute


def _line(method: str, row: Row) -> str:
  top1 = 100 * np.array([outcome["top1"] for outcome in row["outcomes"]])
  spread = f" ± {top1.std(ddof=1):.2f}" if len(top1) > 1 else ""
  return f"{method:20} top-1 {top1.mean():.2f}{spread}  ({row['seconds']:.0f} s)"
