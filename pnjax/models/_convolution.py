"""Convolution and max-pooling, with a path of their own on the CPU."""

from flax import linen as nn
import jax
from jax import lax


def conv(x: jax.Array, w: jax.Array, stride: int, padding: int) -> jax.Array:
  """Convolves `[B, H, W, C]` with `[k, k, C, D]`."""
  return lax.conv_general_dilated(
    x,
    w,
    (stride, stride),
    [(padding, padding)] * 2,
    dimension_numbers=("NHWC", "HWIO", "NHWC"),
  )


def max_pool(x: jax.Array, padding: int = 0) -> jax.Array:
  """Maximum over windows of 3 × 3 at stride 2."""
  return nn.max_pool(x, (3, 3), (2, 2), [(padding, padding)] * 2)
