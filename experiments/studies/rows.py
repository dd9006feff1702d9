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

from experiments.studies import convergence
from experiments.studies import outcomes as outcomes_lib
from experiments.studies import stored
from pnjax import config as config_lib
from pnjax import data
from pnjax import pretrained
from pnjax import probe
from pnjax import runs
from pnjax import runtime
from pnjax import train

# The outcomes of one or more classifiers on each pair of splits, and what led to them.
Row = dict[str, Any]
Pair = tuple[data.Split, data.Split]
DependenciesOf = Callable[[ml_collections.ConfigDict], dict[str, Any]]

# Classifiers of a row. "frozen" is solved in closed form on the features of the
# pretrained network; "softmax" and "refit" are those of a run, trained and then solved.
CLASSIFIERS = ("frozen", "softmax", "refit")
# What all rows of a table depend on, besides fields of the config.
COMMON = ("how", "splits", "images", "weights")


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


def dependencies_of_rows(
  config: ml_collections.ConfigDict, pairs: Sequence[Pair], finetune: bool
) -> DependenciesOf:
  """Return a function from a config to all that its row depends on.

  Args:
    config: Config of any method of the table.
    pairs: Splits to train on, each with the split to evaluate on.
    finetune: Whether to train as the configs say.
  """
  common = {
    "how": "finetuning" if finetune else "frozen",
    "splits": [train_split.split for train_split, _ in pairs],
    "images": [{"train": a.fingerprint, "test": b.fingerprint} for a, b in pairs],
    "weights": weights_digest(config),
  }

  def dependencies_of(config: ml_collections.ConfigDict) -> dict[str, Any]:
    fields = config.to_dict() if finetune else relevant_fields(config)
    return {**common, "config": config_lib.relevant_fields(fields)}

  return dependencies_of


def dependencies(row: Row) -> dict[str, Any]:
  """Return all that a row depends on."""
  return {name: row[name] for name in (*COMMON, "config")}


def compute_rows(
  configs: Mapping[str, ml_collections.ConfigDict],
  dependencies_of: DependenciesOf,
  workdir: pathlib.Path,
  pairs: Sequence[Pair],
  finetune: bool,
  cache: str | os.PathLike | None,
) -> None:
  """Compute the rows of some methods, unless they are stored.

  Args:
    configs: Configs by method.
    dependencies_of: Function of `dependencies_of_rows`.
    workdir: Folder for rows and runs.
    pairs: Splits to train on, each with the split to evaluate on.
    finetune: Whether to train as the configs say, in addition to frozen features.
    cache: Folder of cached features.
  """
  config = next(iter(configs.values()))
  splits = [train_split.split for train_split, _ in pairs]
  if finetune or max(len(train_split) for train_split, _ in pairs) > probe.MAX_ROWS:
    compute = _rows_from_runs(splits, workdir / "runs", finetune, cache)
  else:
    compute = _rows_from_features(config, pairs, cache)
  for method, config in configs.items():
    dependencies = dependencies_of(config)
    row = stored.load_or_compute(
      workdir / "rows",
      method,
      dependencies,
      functools.partial(compute, config, method, dependencies),
    )
    print(_line(method, row), flush=True)


def weights_digest(config: ml_collections.ConfigDict) -> str | None:
  """Return the sha256 of the file of the weights to start from; None without any."""
  weights = config.backbone.weights
  return weights and runtime.file_digest(pretrained.weights_path(weights))


def relevant_fields(config: ml_collections.ConfigDict) -> dict[str, Any]:
  """Return the groups of a config that ridge regression on features depends on."""
  return {name: config[name].to_dict() for name in ("dataset", "backbone", "pooling")}


def _rows_from_features(
  config: ml_collections.ConfigDict,
  pairs: Sequence[Pair],
  cache: str | os.PathLike | None,
) -> Callable[..., Row]:
  """Return a function that computes rows from the features of all pairs of splits."""

  @functools.cache
  def load():
    return probe.load_frozen_features(config, pairs, cache)

  def compute(config, method, dependencies):
    del dependencies
    frozen = load()
    suggested = probe.suggest_parameters(config, frozen)
    classified = probe.classify(config, frozen, suggested, method)
    outcomes = []
    for (_, positions), predictions in zip(frozen.pairs, classified, strict=True):
      labels = frozen.labels[positions]
      confusion = train.confusion_matrix(labels, predictions, frozen.num_classes)
      metrics = train.summarize(0.0, confusion)
      outcomes.append(outcomes_lib.make_outcome(metrics, labels, predictions))
    return {"suggested": suggested, "outcomes": {"frozen": outcomes}}

  return compute


def _rows_from_runs(
  splits: Sequence[str],
  folder: pathlib.Path,
  finetune: bool,
  cache: str | os.PathLike | None,
) -> Callable[..., Row]:
  """Return a function that computes rows from runs, which stay in a folder.

  "frozen" is the refit classifier of a run of no epochs.
  """

  def compute(config, method, dependencies):
    trained = config.copy_and_resolve_references()
    if not finetune:
      trained.train.trainable, trained.train.cache_features = "none", True
    frozen = trained.copy_and_resolve_references()
    frozen.train.num_epochs = 0
    outcomes = {name: [] for name in (CLASSIFIERS if finetune else ("frozen",))}
    for split in splits:
      # Runs with other dependencies stay where they are.
      name = f"{method}-{split}-{stored.dependency_digest(dependencies)}"
      workdir = folder / f"{name}-frozen"
      of_frozen = _outcomes_of_run(frozen, split, workdir, cache)
      outcomes["frozen"].append(of_frozen["refit"])
      if finetune:
        of_trained = _outcomes_of_run(trained, split, folder / name, cache)
        for classifier, outcome in of_trained.items():
          outcomes[classifier].append(outcome)
    info = runs.read_model_info(workdir)
    return {"suggested": info.suggested, "outcomes": outcomes}

  return compute


def _outcomes_of_run(
  config: ml_collections.ConfigDict,
  split: str,
  workdir: pathlib.Path,
  cache: str | os.PathLike | None,
) -> dict[str, dict[str, Any]]:
  """Return the outcome of each classifier of a run that trains on a split."""
  config = config.copy_and_resolve_references()
  config.dataset.split = split
  result = finished_run(config, workdir, cache)
  outcomes = {
    classifier: outcomes_lib.make_outcome(
      metrics, *runs.read_predictions(workdir, classifier)
    )
    for classifier, metrics in runs.metrics_by_classifier(result).items()
  }
  if "softmax" in outcomes:
    outcomes["softmax"]["curve"] = convergence.curve_of_run(config, workdir)
  return outcomes


def finished_run(
  config: ml_collections.ConfigDict,
  workdir: pathlib.Path,
  cache: str | os.PathLike | None,
) -> dict[str, Any]:
  """Return the result of a run with both classifiers, and train if it is not there.

  Raises:
    KeyboardInterrupt: if the run was asked to stop.
  """
  config = config.copy_and_resolve_references()
  config.classifier.refit = True
  print(f"{workdir}:", flush=True)
  result = train.train_and_evaluate(config, workdir, cache=cache)
  if result is None:
    raise KeyboardInterrupt(f"stopped; the same command continues {workdir}.")
  return result


def _line(method: str, row: Row) -> str:
  parts = []
  for classifier, outcomes in row["outcomes"].items():
    top1 = 100 * np.array([outcome["top1"] for outcome in outcomes])
    spread = f" ± {top1.std(ddof=1):.2f}" if len(top1) > 1 else ""
    parts.append(f"{classifier} {top1.mean():.2f}{spread}")
  return f"{method:20} top-1: {', '.join(parts)}  ({row['seconds']:.0f} s)"
