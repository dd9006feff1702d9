"""A linear classifier on pooled vectors, solved in closed form."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from flax import struct
import jax
import numpy as np

from pnjax import data
from pnjax import runtime
from pnjax.probe import _conjugate_gradients
from pnjax.probe import _kernel
from pnjax.probe import _ridge
from pnjax.probe._vectors import PooledVectors

if TYPE_CHECKING:
  from jaxtyping import Array
  from jaxtyping import Float


class LinearClassifier(struct.PyTreeNode):
  """A dense layer on pooled vectors of unit length.

  Attributes:
    kernel: Weights, `[D, C]`.
    bias: Offsets, `[C]`.
  """

  kernel: jax.Array | np.ndarray
  bias: jax.Array | np.ndarray

  def __call__(
    self, vectors: Float[Array, "B D"] | np.ndarray
  ) -> Float[Array, "B C"] | np.ndarray:
    """Return the logits of vectors of unit length."""
    return vectors @ self.kernel + self.bias[None]


@dataclasses.dataclass(frozen=True, eq=False)
class Refit:
  """A classifier that was solved in closed form.

  Attributes:
    classifier: The classifier.
    regularization: Regularisation that leave-one-out chose.
    left_out_top1: Accuracy on the training images when each is left out in turn, with
      all its views.
    num_vectors: Number of vectors that it was fit to.
  """

  classifier: LinearClassifier
  regularization: float
  left_out_top1: float
  num_vectors: int


def refit(
  vectors: PooledVectors,
  labels: np.ndarray,
  num_classes: int,
  num_views: int = 1,
  memory: int | None = None,
  max_rows: int = _kernel.MAX_ROWS,
) -> Refit:
  """Fits a linear classifier by ridge regression.

  Up to `max_rows` vectors, it is exact: kernel ridge regression, whose weights are
  Σᵢ αᵢΨᵢ. With more, as many images as that are chosen from all classes, which give
  the regularisation and first weights; conjugate gradients do the rest.

  Args:
    vectors: Pooled vectors of unit length: all images in their first view, all in
      their second, and so on.
    labels: Label of each vector, `[n]`.
    num_classes: Number C of classes.
    num_views: Number of views of each image, which are left out together.
    memory: Bytes that vectors may take; most of the available memory if None.
    max_rows: Number of vectors up to which the kernel is computed.
  """
  if len(vectors) <= max_rows:
    weights, ridge = _solve_kernel(vectors, labels, num_classes, num_views, memory)
    bias = ridge.offset
  else:
    rows = _some_images(labels, num_views, max_rows)
    some = vectors.subset(rows)
    start, ridge = _solve_kernel(some, labels[rows], num_classes, num_views, memory)
    targets = np.where(np.arange(num_classes) == labels[:, None], 1.0, -1.0)
    weights, bias = _conjugate_gradients.solve_ridge(
      vectors, ridge.scale * targets, ridge.regularization * ridge.diagonal, start
    )
  return Refit(
    LinearClassifier(weights.astype(np.float32), bias.astype(np.float32)),
    ridge.regularization,
    ridge.left_out_top1,
    len(vectors),
  )


def _solve_kernel(
  vectors: PooledVectors,
  labels: np.ndarray,
  num_classes: int,
  num_views: int,
  memory: int | None,
) -> tuple[np.ndarray, _ridge.RidgeClassifier]:
  """Return the weights of kernel ridge regression, and the regression."""
  if vectors.num_bytes <= (memory or runtime.spare_memory()):
    with runtime.Progress(0, len(vectors), "pooled vectors") as progress:
      vectors = vectors.stored(progress)
  kernel = _kernel.pooled_kernel(vectors, label="refit, kernel", memory=memory)
  ridge = _ridge.fit_ridge(kernel, labels, num_classes, num_views)
  weights = np.zeros((vectors.length, num_classes), np.float32)
  with runtime.Progress(0, len(vectors), "refit, weights") as progress:
    for first, block in vectors.blocks(progress):
      rows = ridge.coefficients[first : first + len(block)].astype(np.float32)
      weights += block.T @ rows
  return weights, ridge


def _some_images(labels: np.ndarray, num_views: int, max_rows: int) -> np.ndarray:
  """Return the rows, in all views, of images from all classes."""
  num_images = len(labels) // num_views
  num_parts = -(-len(labels) // max_rows)
  parts = data.stratified_folds(labels[:num_images], num_parts, seed=0)
  images = np.flatnonzero(parts == 0)[: max_rows // num_views]
  return np.concatenate([view * num_images + images for view in range(num_views)])
