"""What differs between the runs of a page."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import numpy as np

_MAX_CLASSES = 12

# A name, and the value of each run.
Row = tuple[str, list[Any]]


def differing_fields(configs: Sequence[Mapping[str, str]]) -> list[Row]:
  """Return the fields of configs that differ.

  Args:
    configs: Fields of each run, by their paths.
  """
  names = sorted(set().union(*configs))
  rows = [(name, [config.get(name, "–") for config in configs]) for name in names]
  return [(name, values) for name, values in rows if len(set(values)) > 1]


def differing_classes(accuracies: Sequence[Mapping[str, float | None]]) -> list[Row]:
  """Return the classes whose accuracies differ most, if all runs have the same ones.

  Args:
    accuracies: Accuracy of each class in each run; None for a class without images.
  """
  first, *others = accuracies
  if any(set(other) != set(first) for other in others):
    return []
  known = [name for name in first if all(own[name] is not None for own in accuracies)]
  rows = [(name, [own[name] for own in accuracies]) for name in known]
  rows = [(name, values) for name, values in rows if np.ptp(values) > 0]
  return sorted(rows, key=lambda row: -np.ptp(row[1]))[:_MAX_CLASSES]
