"""A table of methods, ours and the paper's."""

from collections.abc import Mapping
from collections.abc import Sequence
import os
import pathlib
from typing import Any

import ml_collections
import numpy as np
from scipy import stats

from experiments.configs import methods
from experiments.studies import method_configs
from experiments.studies import paper
from experiments.studies import rows as rows_lib
from experiments.studies import table_files
from pnjax import config as config_lib
from pnjax import pretrained
from pnjax import runs

_CONFIDENCE = 0.95
_RESAMPLES = 10_000


def make_table(
  config_of: method_configs.ConfigOf,
  workdir: str | os.PathLike,
  *,
  rows: Sequence[str],
  splits: Sequence[str] | None = None,
  finetune: bool = False,
  classifier: str = "refit",
  cache: str | os.PathLike | None = None,
  overrides: Mapping[str, Any] | None = None,
  command: str | None = None,
) -> dict[str, Any]:
  """Compute the rows that are not stored, and write the table.

  Args:
    config_of: Function from a method to its config.
    workdir: Folder for rows and tables.
    rows: Names of the methods.
    splits: Names of the splits to train on.
    finetune: Whether to train as the configs say, in addition to frozen features.
    classifier: Classifier of a trained network whose gains are shown: "refit" or
      "softmax".
    cache: Folder of cached features.
    overrides: Fields that were set for all methods, which a note below the table names.
    command: Command that makes the table, which is written below it.

  Returns:
    The contents of `table.json`.
  """
  workdir = pathlib.Path(workdir)
  _check_methods(rows)
  config = config_of(rows[0])
  config_lib.check_fields(config)
  if config.backbone.name == "alexnet":
    # Its own classifier is fully connected layers, which are not part of the weights.
    rows = [method for method in rows if method != "baseline"]
    if not rows:
      raise ValueError("--rows is baseline, which alexnet does not have.")
  splits = list(splits or _default_splits(config.dataset.split))
  pairs = rows_lib.open_pairs(config, splits)
  (workdir / "rows").mkdir(parents=True, exist_ok=True)
  configs = {method: config_of(method) for method in rows}
  computed = rows_lib.compute_rows(configs, workdir, pairs, finetune, cache)
  notes = _notes(configs[rows[0]], pairs, finetune)
  if overrides:
    fields = ", ".join(f"{name} = {value}" for name, value in overrides.items())
    notes.append(f"Set for all rows: {fields}.")
  shown = classifier if finetune else "frozen"
  table = _compare(configs[rows[0]], splits, computed, notes, shown)
  table["command"] = command
  table_files.write(table, workdir)
  return table


def _check_methods(rows: Sequence[str]) -> None:
  if not any(rows):
    raise ValueError("--rows is empty, expected methods.")
  unknown = [method for method in rows if method not in methods.METHODS]
  if unknown:
    known = ", ".join(methods.METHODS)
    raise ValueError(f"--rows has {', '.join(unknown)}, expected some of {known}.")


def _default_splits(split: str) -> list[str]:
  """Return all ten halves or folds for one of FMD's, and else the split itself."""
  kind = split.split("_")[0]
  if kind in ("half", "fold"):
    return [f"{kind}_{i}_train" for i in range(1, 11)]
  return [split]


def _compare(
  config: ml_collections.ConfigDict,
  splits: Sequence[str],
  rows: Mapping[str, rows_lib.Row],
  notes: Sequence[str],
  shown: str,
) -> dict[str, Any]:
  """Return the table: means, deviations, and gains over the first row."""
  accuracies = paper.ACCURACIES.get((config.dataset.name, config.backbone.name), {})
  reference = next(iter(rows))
  entries = []
  for method, row in rows.items():
    entry = {
      "method": method,
      "name": paper.display_name(method),
      "paper": accuracies.get(method),
      "suggested": row["suggested"],
      "seconds": row["seconds"],
      "classifiers": {},
    }
    correct = {name: _correct(outcomes) for name, outcomes in row["outcomes"].items()}
    for name, outcomes in row["outcomes"].items():
      entry["classifiers"][name] = {
        metric: _summary([outcome[metric] for outcome in outcomes])
        for metric in ("top1", "mean_per_class")
      }
      if method != reference:
        theirs = _correct(rows[reference]["outcomes"][name])
        entry["classifiers"][name]["gain"] = paired_gain(correct[name], theirs)
    if shown != "frozen":
      entry["learned"] = paired_gain(correct[shown], correct["frozen"])
    entries.append(entry)
  return {
    "dataset": config.dataset.name,
    "backbone": config.backbone.name,
    "reference": reference,
    "shown": shown,
    "splits": list(splits),
    "notes": list(notes),
    "rows": entries,
    **runs.environment(),
  }


def _correct(outcomes: Sequence[Mapping[str, Any]]) -> list[np.ndarray]:
  return [np.array(outcome["right"]) for outcome in outcomes]


def _summary(values: Sequence[float]) -> dict[str, float | None]:
  """Return the mean, and the deviation of several values, in per cent."""
  percents = 100 * np.array(values)
  deviation = float(percents.std(ddof=1)) if len(percents) > 1 else None
  return {"mean": float(percents.mean()), "deviation": deviation}


def paired_gain(
  ours: Sequence[np.ndarray], theirs: Sequence[np.ndarray]
) -> dict[str, float]:
  """Return the paired difference in top-1 accuracy, in per cent, with its interval.

  With several splits, the pairs are splits; with a single one, they are its images.

  Args:
    ours: For each split, whether each image was classified correctly.
    theirs: The same for the method to compare with.
  """
  if len(ours) > 1:
    pairs = zip(ours, theirs, strict=True)
    differences = np.array([a.mean() - b.mean() for a, b in pairs])
    mean, error = differences.mean(), stats.sem(differences)
    low = high = mean
    if error > 0:
      low, high = stats.t.interval(_CONFIDENCE, len(differences) - 1, mean, error)
  else:
    differences = ours[0].astype(float) - theirs[0]
    mean = differences.mean()
    low, high = stats.bootstrap(
      [differences],
      np.mean,
      confidence_level=_CONFIDENCE,
      n_resamples=_RESAMPLES,
      batch=100,
      method="percentile",
      rng=np.random.default_rng(0),
    ).confidence_interval
  return {
    "mean": 100 * float(mean),
    "low": 100 * float(low),
    "high": 100 * float(high),
  }


def _notes(
  config: ml_collections.ConfigDict, pairs: Sequence[rows_lib.Pair], finetune: bool
) -> list[str]:
  """Return the protocol of the table, and where it departs from the paper."""
  dataset, (train_split, test_split) = config.dataset, pairs[0]
  crops = f"{dataset.num_crops} crops of " if dataset.num_crops > 1 else ""
  size = f"{dataset.image_size} × {dataset.image_size}"
  others = f", and {len(pairs) - 1} more such pairs" if len(pairs) > 1 else ""
  weights = config.backbone.weights
  origin = (
    f"with {pretrained.weights_path(weights).name}"
    if weights
    else "from random weights"
  )
  notes = [
    f"Trained on {len(train_split)} images ({train_split.split}), evaluated on "
    f"{len(test_split)} ({test_split.split}){others}.",
    f"{crops}{size}, {config.backbone.name} {origin}.",
    "frozen: ridge regression on pooled vectors of the pretrained network.",
    *(_training_notes(config) if finetune else ()),
  ]
  if len(pairs) == 1:
    notes.append("Intervals are bootstrapped over the images of the split, in pairs.")
    return notes
  notes.append(
    "± is the deviation over splits. Intervals are Student's t over paired splits, "
    "which share images, so the intervals are somewhat too narrow."
  )
  if not finetune:
    notes.append(f"Suggested parameters come from {train_split.split}, for all splits.")
  return notes


def _training_notes(config: ml_collections.ConfigDict) -> list[str]:
  """Return which layers were trained, and how."""
  train, optim = config.train, config.optim
  layers = {
    "all": "all layers",
    "none": "the classifier alone",
    "last_stage": "the last stage and the classifier (the paper: all layers)",
    "last_two_convs": "the last two convolutions and the classifier",
  }.get(train.trainable, f"{train.trainable} and the classifier")
  views = ""
  if train.cache_features:
    count = train.cached_views
    views = f", from {count} cached views" if count > 1 else ", from cached features"
  return [
    f"softmax: {layers} trained by {optim.name} at {optim.learning_rate:g} to "
    f"{optim.final_learning_rate:g}, {train.num_epochs} epochs, batch size "
    f"{train.batch_size}{views}.",
    "refit: ridge regression on the pooled vectors of the same trained network.",
  ]
