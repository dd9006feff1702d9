"""Ridge regression on a kernel, with regularisation chosen on the training data."""

import dataclasses
from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy import special

# Candidates, relative to the mean diagonal of the centered kernel.
REGULARIZATIONS = tuple(10.0**e for e in np.arange(-5, 1.1, 0.5))
# Range of the factor that turns scores into logits.
_SCALES = (0.1, 100.0)


@dataclasses.dataclass(frozen=True, eq=False)
class RidgeClassifier:
  """A classifier on the kernel with the training examples.

  Attributes:
    regularization: Regularisation that was chosen, relative to `diagonal`.
    diagonal: Mean diagonal of the centered kernel.
    coefficients: Coefficient of each training example for each class, `[m, C]`.
    offset: Offset of each class, `[C]`.
    scale: Factor between scores and the targets of the regression, which are ±1. It
      makes scores logits: the cross-entropy of the left-out examples is the smallest.
    left_out_top1: Accuracy on the training images when each is left out in turn.
  """

  regularization: float
  diagonal: float
  coefficients: np.ndarray
  offset: np.ndarray
  scale: float
  left_out_top1: float

  def scores(self, kernel: np.ndarray) -> np.ndarray:
    """Return scores `[n, C]`, which are logits, for a kernel `[n, m]`."""
    return kernel.astype(np.float64) @ self.coefficients + self.offset

  def predict(self, kernel: np.ndarray) -> np.ndarray:
    """Return classes `[n]` for a kernel `[n, m]`."""
    return np.argmax(self.scores(kernel), axis=1)


def fit_ridge(
  kernel: np.ndarray, labels: np.ndarray, num_classes: int, num_views: int = 1
) -> RidgeClassifier:
  """Fits one regression per class, with the regularisation of the best leave-one-out.

  The best has the smallest cross-entropy.

  Args:
    kernel: Kernel of the training examples, `[m, m]`.
    labels: Labels of the training examples, `[m]`.
    num_classes: Number C of classes.
    num_views: Number of views of each image. Examples are all images in their first
      view, all in their second, and so on. An image is left out with all its views.
  """
  # With the centered kernel K = V diag(w) Vᵀ and targets Y, the hat matrix is
  # H = K(K + ρI)⁻¹ + 11ᵀ/m, and R = Y − HY are the residuals. The regression without
  # the examples of a group g misses them by (I − H_gg)⁻¹ R_g: all candidates ρ
  # together cost one decomposition.
  _check(kernel, labels, num_classes, num_views)
  m = len(labels)
  kernel = kernel.astype(np.float64)
  column_means = kernel.mean(axis=0)
  centered = kernel - column_means - column_means[:, None] + column_means.mean()
  targets = np.where(np.arange(num_classes) == labels[:, None], 1.0, -1.0)
  mean_target = targets.mean(axis=0)
  eigenvalues, vectors = np.linalg.eigh(centered)
  eigenvalues = np.maximum(eigenvalues, 0)
  projected = vectors.T @ (targets - mean_target)
  diagonal = np.trace(centered) / m or 1.0

  def by_image(rows):  # [m, k] -> [images, views, k]
    return rows.reshape(num_views, -1, rows.shape[-1]).transpose(1, 0, 2)

  def left_out_scores(regularization):
    shrink = eigenvalues / (eigenvalues + regularization * diagonal)
    residuals = targets - mean_target - vectors @ (shrink[:, None] * projected)
    own = by_image(vectors)
    hat = (own * shrink) @ own.transpose(0, 2, 1) + 1 / m
    # Slightly more than 1, so that an image that nothing else is like can be left out.
    rest = (1 + 1e-12) * np.eye(num_views) - hat
    return by_image(targets) - np.linalg.solve(rest, by_image(residuals))

  # The cross-entropy of the left-out examples is chosen over their accuracy, which is
  # almost flat on learned features, whatever is best for other images.
  own_labels = by_image(labels[:, None])[..., 0]
  fits = {r: _fit_scale(left_out_scores(r), own_labels) for r in REGULARIZATIONS}
  best = min(fits, key=lambda r: fits[r].loss)
  scale = fits[best].scale
  predictions = np.argmax(left_out_scores(best), axis=-1)
  # Up to rounding, the coefficients sum to zero, since targets and kernel are centered;
  # so the row means of another kernel need not be subtracted.
  dual = vectors @ (projected / (eigenvalues + best * diagonal)[:, None])
  dual -= dual.mean(axis=0)
  return RidgeClassifier(
    regularization=best,
    diagonal=diagonal,
    coefficients=scale * dual,
    offset=scale * (mean_target - column_means @ dual),
    scale=scale,
    left_out_top1=float(np.mean(predictions == own_labels)),
  )


def fit_and_predict(
  kernel: np.ndarray,
  labels: np.ndarray,
  num_classes: int,
  train: np.ndarray,
  test: np.ndarray,
) -> np.ndarray:
  """Fit regressions to some examples of a kernel, and return the classes of others.

  Args:
    kernel: Kernel of all examples with those to train on.
    labels: Labels of all examples.
    num_classes: Number of classes.
    train: Positions of the examples to train on.
    test: Positions of the examples to classify.
  """
  fitted = fit_ridge(kernel[np.ix_(train, train)], labels[train], num_classes)
  return fitted.predict(kernel[np.ix_(test, train)])


def _check(
  kernel: np.ndarray, labels: np.ndarray, num_classes: int, num_views: int
) -> None:
  m = len(labels)
  if m == 0 or kernel.shape != (m, m):
    raise ValueError(
      f"`kernel` has shape {kernel.shape}, expected ({m}, {m}) for {m} labels."
    )
  if not np.isfinite(kernel).all():
    raise ValueError("`kernel` has entries that are not finite.")
  if not 0 <= labels.min() <= labels.max() < num_classes:
    raise ValueError(
      f"`labels` are from {labels.min()} to {labels.max()}, expected 0 to "
      f"{num_classes - 1}."
    )
  if num_views < 1 or m % num_views:
    raise ValueError(
      f"`num_views` is {num_views}, expected a divisor of the {m} examples."
    )


class _ScaleFit(NamedTuple):
  """The factor that turns scores into logits, and their cross-entropy."""

  scale: float
  loss: float


def _fit_scale(scores: np.ndarray, labels: np.ndarray) -> _ScaleFit:
  """Fits the factor with which the softmax of scores `[..., C]` fits labels best."""

  def loss(log_scale: float) -> float:
    logits = np.exp(log_scale) * scores
    correct = np.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return float(np.mean(special.logsumexp(logits, axis=-1) - correct))

  found = optimize.minimize_scalar(loss, bounds=np.log(_SCALES), method="bounded")
  return _ScaleFit(float(np.exp(found.x)), float(found.fun))
