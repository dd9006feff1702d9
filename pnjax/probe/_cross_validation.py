"""Cross-validation of ridge regression on a kernel."""

import numpy as np

from pnjax.probe._ridge import fit_and_predict


def cross_validate(
  kernel: np.ndarray, labels: np.ndarray, num_classes: int, folds: np.ndarray
) -> np.ndarray:
  """Return the accuracy on each fold of a classifier that is fit on the others.

  Args:
    kernel: Kernel of all examples, `[n, n]`.
    labels: Labels of all examples.
    num_classes: Number of classes.
    folds: Fold of each example, from 0.
  """
  accuracies = []
  for fold in range(folds.max() + 1):
    train, test = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
    predictions = fit_and_predict(kernel, labels, num_classes, train, test)
    accuracies.append(np.mean(predictions == labels[test]))
  return np.array(accuracies)
