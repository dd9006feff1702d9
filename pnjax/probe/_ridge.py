"""Ridge regression on a kernel, with regularisation chosen on the training data."""

import dataclasses

import numpy as np

# Candidates, relative to the mean diagonal of the centered kernel.
REGULARIZATIONS = tuple(10.0**e for e in np.arange(-5, 1.1, 0.5))


@dataclasses.dataclass(frozen=True, eq=False)
class RidgeClassifier:
  """A classifier on the kernel with the training examples.

  Attributes:
    regularization: Regularisation that was chosen.
    coefficients: Coefficient of each training example for each class, `[m, C]`.
    offset: Offset of each class, `[C]`.
  """

  regularization: float
  coefficients: np.ndarray
  offset: np.ndarray

  def scores(self, kernel: np.ndarray) -> np.ndarray:
    """Return scores `[n, C]` for a kernel `[n, m]`."""
    return kernel.astype(np.float64) @ self.coefficients + self.offset

  def predict(self, kernel: np.ndarray) -> np.ndarray:
    """Return classes `[n]` for a kernel `[n, m]`."""
    return np.argmax(self.scores(kernel), axis=1)


def fit_ridge(
  kernel: np.ndarray, labels: np.ndarray, num_classes: int
) -> RidgeClassifier:
  """Fits one regression per class, with the regularisation of the best leave-one-out.

  Args:
    kernel: Kernel of the training examples, `[m, m]`.
    labels: Labels of the training examples, `[m]`.
    num_classes: Number C of classes.
  """
  # With the centered kernel K = V diag(w) Vᵀ and targets Y, the regression without
  # example i misses it by rᵢ / (1 − Hᵢᵢ), where H = K(K + ρI)⁻¹ + 11ᵀ/m is the hat
  # matrix and r = Y − HY: all candidates ρ together cost one decomposition.
  m = len(labels)
  kernel = kernel.astype(np.float64)
  column_means = kernel.mean(axis=0)
  centered = kernel - column_means - column_means[:, None] + column_means.mean()
  targets = np.where(np.arange(num_classes) == labels[:, None], 1.0, -1.0)
  offset = targets.mean(axis=0)
  eigenvalues, vectors = np.linalg.eigh(centered)
  eigenvalues = np.maximum(eigenvalues, 0)
  projected = vectors.T @ (targets - offset)
  scale = np.trace(centered) / m or 1.0

  def left_out_accuracy(regularization):
    shrink = eigenvalues / (eigenvalues + regularization * scale)
    fitted = vectors @ (shrink[:, None] * projected) + offset
    hat = np.square(vectors) @ shrink + 1 / m
    left_out = targets - (targets - fitted) / np.maximum(1 - hat, 1e-12)[:, None]
    return np.mean(np.argmax(left_out, axis=1) == labels)

  best = max(REGULARIZATIONS, key=left_out_accuracy)
  # Up to rounding, the coefficients sum to zero, since targets and kernel are centered;
  # so the row means of another kernel need not be subtracted.
  dual = vectors @ (projected / (eigenvalues + best * scale)[:, None])
  dual -= dual.mean(axis=0)
  return RidgeClassifier(best, dual, offset - column_means @ dual)
