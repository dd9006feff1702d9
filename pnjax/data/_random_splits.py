"""Random splits, stratified by class, that are the same on every machine."""

from collections.abc import Sequence

import numpy as np


def stratified(
  labels: Sequence[int], share: float, seed: int
) -> tuple[list[int], list[int]]:
  """Return positions of a random share of each class, and of the rest."""
  rng = np.random.default_rng(seed)
  classes = np.asarray(labels)
  first: list[int] = []
  for label in np.unique(classes):
    members = np.flatnonzero(classes == label)
    # A class of two or more images leaves at least one for the rest.
    count = min(round(share * len(members)), max(len(members) - 1, 1))
    first += rng.permutation(members)[:count].tolist()
  rest = np.setdiff1d(np.arange(len(classes)), first)
  return sorted(first), rest.tolist()


def stratified_folds(labels: np.ndarray, num_folds: int, seed: int) -> np.ndarray:
  """Return the fold of each example, with every class spread evenly over the folds."""
  rng = np.random.default_rng(seed)
  folds = np.empty(len(labels), int)
  start = 0
  for label in np.unique(labels):
    members = rng.permutation(np.flatnonzero(labels == label))
    # Classes start at different folds, so that all folds have the same size.
    folds[members] = (start + np.arange(len(members))) % num_folds
    start += len(members)
  return folds


def folds(labels: Sequence[int], num_folds: int) -> dict[str, list[int]]:
  """Return `fold_1_train`, `fold_1_test`, …: each image is in one test split."""
  rng = np.random.default_rng(0)
  classes = np.asarray(labels)
  fold = np.empty_like(classes)
  for label in np.unique(classes):
    members = np.flatnonzero(classes == label)
    fold[rng.permutation(members)] = np.arange(len(members)) % num_folds
  splits = {}
  for k in range(num_folds):
    splits[f"fold_{k + 1}_train"] = np.flatnonzero(fold != k).tolist()
    splits[f"fold_{k + 1}_test"] = np.flatnonzero(fold == k).tolist()
  return splits
