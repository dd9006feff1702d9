"""Feature maps without the rows and columns that the next stage does not read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax import lax
import jax.numpy as jnp

if TYPE_CHECKING:
  from jaxtyping import Array
  from jaxtyping import Float


def subsample(
  feature_maps: Float[Array, "*batch H W d"], stride: int
) -> Float[Array, "*batch h w d"]:
  """Keep every `stride`-th row and column."""
  return feature_maps[..., ::stride, ::stride, :]


def upsample(
  feature_maps: Float[Array, "*batch h w d"], stride: int
) -> Float[Array, "*batch H W d"]:
  """Put zeros between the rows and columns that `subsample` kept."""
  between = (0, 0, stride - 1)
  edges = [(0, 0, 0)] * (feature_maps.ndim - 3) + [between, between, (0, 0, 0)]
  return lax.pad(feature_maps, jnp.zeros((), feature_maps.dtype), edges)
