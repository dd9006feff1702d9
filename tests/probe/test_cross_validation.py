import numpy as np

from pnjax import data
from pnjax import probe


def test_each_fold_is_classified_by_the_others(rng):
  labels = np.arange(30) % 3
  x = rng.standard_normal((30, 8)) + 3 * rng.standard_normal((3, 8))[labels]
  folds = data.stratified_folds(labels, 3, seed=0)
  accuracies = probe.cross_validate(x @ x.T, labels, 3, folds)
  for fold, accuracy in enumerate(accuracies):
    train, test = folds != fold, folds == fold
    fitted = probe.fit_ridge(x[train] @ x[train].T, labels[train], 3)
    predictions = fitted.predict(x[test] @ x[train].T)
    assert accuracy == np.mean(predictions == labels[test])
  assert accuracies.mean() > 0.8
