"""The contents of a table, from its rows and back."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from experiments.studies import outcomes as outcomes_lib
from experiments.studies import paper
from experiments.studies import rows as rows_lib

_CONFIDENCE = 0.95
_RESAMPLES = 10_000


def compare(
  rows: Mapping[str, rows_lib.Row], notes: Sequence[str], shown: str
) -> dict[str, Any]:
  """Return the table of some rows: means, deviations, and gains over the first row.

  Args:
    rows: Rows by method, which differ in the pooling only.
    notes: Notes below the table.
    shown: Classifier whose gains are shown.
  """
  reference = next(iter(rows))
  settings = _settings(rows.values())
  dataset, backbone = (settings["config"][f"{x}.name"] for x in ("dataset", "backbone"))
  accuracies = paper.ACCURACIES.get((dataset, backbone), {})
  entries = []
  for method, row in rows.items():
    own = {k: v for k, v in row["config"].items() if k not in settings["config"]}
    entry = {
      "method": method,
      "name": paper.display_name(method),
      "paper": accuracies.get(method),
      "config": own,
      "suggested": row["suggested"],
      "seconds": row["seconds"],
      "classifiers": _classifiers(
        row, None if method == reference else rows[reference]
      ),
    }
    if shown != "frozen":
      correct = {name: _correct(row["outcomes"][name]) for name in (shown, "frozen")}
      entry["learned"] = paired_gain(correct[shown], correct["frozen"])
    entries.append(entry)
  return {
    "dataset": dataset,
    "backbone": backbone,
    "reference": reference,
    "shown": shown,
    "settings": settings,
    "notes": list(notes),
    "rows": entries,
  }


def rows_of(table: Mapping[str, Any]) -> dict[str, rows_lib.Row]:
  """Return the rows that `compare` made a table of."""
  settings = table["settings"]
  return {
    entry["method"]: {
      **settings,
      "config": settings["config"] | entry["config"],
      "suggested": entry["suggested"],
      "outcomes": {
        name: classifier["outcomes"]
        for name, classifier in entry["classifiers"].items()
      },
      "seconds": entry["seconds"],
    }
    for entry in table["rows"]
  }


def _settings(rows: Iterable[rows_lib.Row]) -> dict[str, Any]:
  """Return what all rows depend on, with the fields of their configs that agree."""
  first, *others = rows
  config = {
    name: value
    for name, value in first["config"].items()
    if all(row["config"].get(name, ...) == value for row in others)
  }
  return {**{name: first[name] for name in rows_lib.COMMON}, "config": config}


def _classifiers(row: rows_lib.Row, reference: rows_lib.Row | None) -> dict[str, Any]:
  """Return the accuracies of each classifier, and its gain over that of another row."""
  classifiers = {}
  for name, outcomes in row["outcomes"].items():
    classifiers[name] = {
      metric: _summary([outcome[metric] for outcome in outcomes])
      for metric in ("top1", "mean_per_class")
    }
    if reference is not None:
      theirs = _correct(reference["outcomes"][name])
      classifiers[name]["gain"] = paired_gain(_correct(outcomes), theirs)
    classifiers[name]["outcomes"] = outcomes
  return classifiers


def _correct(outcomes: Sequence[Mapping[str, Any]]) -> list[np.ndarray]:
  return [outcomes_lib.correct(outcome) for outcome in outcomes]


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
