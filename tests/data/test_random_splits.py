import hashlib
import json

import numpy as np
import pytest

from pnjax import data
from pnjax.data import _random_splits


def test_splits_never_change():
  labels = [i // 100 for i in range(1000)]
  splits = [
    _random_splits.stratified(labels, 0.5, seed=3),
    _random_splits.folds(labels, 10),
  ]
  digest = hashlib.sha256(json.dumps(splits).encode()).hexdigest()
  # Results are comparable only as long as the splits of FMD and MIT67 stay the same.
  assert digest == "9463dc95fd28b2dd476b6e9e20eb9384cbdb6de78362c5031bd742466aa0380a"


@pytest.mark.parametrize(
  ("count", "first"), [(1, 1), (2, 1), (3, 2), (5, 4), (10, 8), (11, 9)]
)
def test_two_or_more_images_of_a_class_are_divided(count, first):
  labels = [0] * count + [1] * count
  parts = _random_splits.stratified(labels, 0.8, seed=0)
  assert [[labels[i] for i in part].count(1) for part in parts] == [
    first,
    count - first,
  ]
  assert sorted(parts[0] + parts[1]) == list(range(2 * count))


def test_folds_are_even_and_reproducible():
  labels = np.repeat(np.arange(7), [5, 5, 5, 4, 6, 5, 5])
  folds = data.stratified_folds(labels, 5, seed=0)
  np.testing.assert_array_equal(np.bincount(folds), [7] * 5)
  assert max(np.bincount(folds[labels == 0])) == 1
  np.testing.assert_array_equal(folds, data.stratified_folds(labels, 5, seed=0))
