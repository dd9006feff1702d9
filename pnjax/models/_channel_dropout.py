"""Dropout of whole channels in front of second-order pooling."""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from pnjax import ops

if TYPE_CHECKING:
  from jaxtyping import Array
  from jaxtyping import Float


def drop_channels(
  key: jax.Array, phi: Float[Array, "B N d"], rate: Float[Array, " B"] | float
) -> Float[Array, "B N d"]:
  """Set channels to zero at random and divide the others by 1 − rate.

  Args:
    key: Random key.
    phi: Features of all positions of each image.
    rate: Share of the channels to drop, one number or one per image.
  """
  kept = 1 - jnp.broadcast_to(rate, phi.shape[:1])[:, None, None].astype(phi.dtype)
  mask = jax.random.bernoulli(key, kept, (phi.shape[0], 1, phi.shape[2]))
  return jnp.where(mask, phi / jnp.where(kept > 0, kept, 1), 0)


def adaptive_rate(phi: Float[Array, "B N d"]) -> Float[Array, " B"]:
  """Return the rate of DropCov for each image, which has no derivative.

  It is 1 − (10/log₂ d) cos(ω, c), between 0 and 1: channels are dropped as far as their
  importance ω, a softmax of their averages, disagrees with their total covariance c.
  Unlike the authors' code, it does not average the rate over a batch, and no
  convolution of the averages is learned for ω.

  References:
    Wang et al., DropCov: A Simple yet Effective Method for Improving Deep
    Architectures, NeurIPS 2022.
  """
  phi = jax.lax.stop_gradient(phi)
  mean = jnp.mean(phi, axis=1)
  importance = jax.nn.softmax(mean, axis=-1)
  centered = phi - mean[:, None]
  # The sums of the rows of the covariance matrix, without the matrix.
  total = jnp.einsum("bnd,bn->bd", centered, jnp.sum(centered, axis=-1))
  cosine = jnp.sum(ops.l2_normalize(importance) * ops.l2_normalize(total), axis=-1)
  # A single channel agrees with itself.
  scale = 10 / jnp.log2(jnp.maximum(phi.shape[-1], 2))
  return jnp.clip(1 - scale * cosine, 0, 1)
