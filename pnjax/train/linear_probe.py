"""Weights of the dense layer from features as they are before anything learns."""

from collections.abc import Mapping
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from pnjax import models
from pnjax.train import kernel
from pnjax.train import ridge


def fit(
  model: models.Classifier,
  variables: Mapping,
  maps: Sequence[np.ndarray],
  labels: np.ndarray,
  after: str | None = None,
) -> dict[str, np.ndarray]:
  """Returns `kernel` and `bias` of the dense layer by ridge regression.

  A dense layer from zero first learns what a regression says at once, and what its
  random way there does to a pretrained network is not undone in a few epochs.

  Args:
    model: whose dense layer it is.
    variables: of the model; the dense layer may have any.
    maps: of the backbone for all pictures to learn from, at most
      `kernel.MAX_PICTURES`.
    labels: of these pictures.
    after: stage of the backbone that the maps come from; None for the last.
  """

  def pool(maps: jax.Array) -> jax.Array:
    maps = maps.astype(jnp.float32)
    return model.apply(variables, maps, False, after, method="pool")

  # Pooled vectors need not fit in memory together: they are made twice.
  products = kernel.pairwise(pool, maps, len(maps), "kernel")
  fitted = ridge.fit(products, labels, model.num_classes)
  weights = kernel.weighted_sum(pool, maps, fitted.coefficients, "weights")
  return {
    "kernel": np.float32(fitted.sharpness) * weights,
    "bias": (fitted.sharpness * fitted.offset).astype(np.float32),
  }
