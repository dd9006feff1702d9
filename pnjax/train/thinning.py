"""Maps without the rows and columns that no later stage of a network reads."""

import jax
from jax import lax
import jax.numpy as jnp


def thin(maps: jax.Array, every: int) -> jax.Array:
  """Keeps every so many rows and columns of maps `[..., H, W, d]`."""
  return maps[..., ::every, ::every, :]


def fill(maps: jax.Array, every: int) -> jax.Array:
  """Puts zeros where `thin` left something out; behind the last row, nothing."""
  between = (0, 0, every - 1)
  edges = [(0, 0, 0)] * (maps.ndim - 3) + [between, between, (0, 0, 0)]
  return lax.pad(maps, jnp.zeros((), maps.dtype), edges)
