"""Matrix helpers that the operators share."""

from collections.abc import Callable
import functools

import jax
from jax import lax
import jax.numpy as jnp


def matmul(a: jax.Array, b: jax.Array) -> jax.Array:
  """Matrix product in full precision.

  By default float32 products run in TF32 on recent GPUs and in bfloat16 on
  TPUs. Power Normalizations magnify small entries, and their error with them.
  """
  return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def sym(m: jax.Array) -> jax.Array:
  """Symmetric part (M + Mᵀ) / 2."""
  return (m + m.mT) / 2


def symmetric_product(
  x: jax.Array,
  g: jax.Array,
  m: jax.Array | None = None,
  slope: Callable[[jax.Array], jax.Array] | None = None,
) -> jax.Array:
  """Returns X (G + Gᵀ), or X ((G + Gᵀ) ⊙ slope(M)) for symmetric M.

  The one product that the derivative of a pooling operator owes its cotangent.
  A CPU adds and weighs one block of columns at a time, which stays in its cache;
  the sum as a whole would go to memory and back.

  Args:
    x: `[..., N, d]`.
    g: `[..., d, d]`.
    m: symmetric matrices `[..., d, d]`.
    slope: element-wise function of `m`.
  """
  weigh = (lambda m: 1) if slope is None else slope
  m = g if slope is None else m
  plain = functools.partial(_plain_symmetric_product, weigh)
  blocked = functools.partial(_blocked_symmetric_product, weigh)
  return lax.platform_dependent(x, g, m, cpu=blocked, default=plain)


def _plain_symmetric_product(weigh, x, g, m):
  return matmul(x, (g + g.mT) * weigh(m))


def _blocked_symmetric_product(weigh, x, g, m):
  dim = g.shape[-1]
  num_blocks = -(-dim // _BLOCK)
  width = -(-dim // num_blocks)

  def add_block(i, out):
    # The last block starts early rather than being narrower: what it shares with
    # the one before is written twice, with the same values.
    start = jnp.minimum(i * width, dim - width)
    columns = functools.partial(
      lax.dynamic_slice_in_dim,
      start_index=start,
      slice_size=width,
      axis=-1,
    )
    rows = lax.dynamic_slice_in_dim(g, start, width, axis=-2)
    block = matmul(x, (columns(g) + rows.mT) * weigh(columns(m)))
    return lax.dynamic_update_slice_in_dim(out, block, start, axis=-1)

  if num_blocks == 1:
    return _plain_symmetric_product(weigh, x, g, m)
  return lax.fori_loop(0, num_blocks, add_block, jnp.zeros_like(x))


# Columns of a block at most. Measured with `benchmarks.pooling` at d = 2058.
_BLOCK = 512


@jax.custom_jvp
def trace(m: jax.Array) -> jax.Array:
  """Trace over the last two axes."""
  return jnp.sum(jnp.diagonal(m, axis1=-2, axis2=-1), axis=-1)


@trace.defjvp
def _trace_jvp(primals, tangents):
  # The diagonal is read in the forward pass only: its transpose would scatter,
  # where that of the masked sum of `jnp.trace` fuses with its surroundings.
  (m,), (m_dot,) = primals, tangents
  return trace(m), jnp.trace(m_dot, axis1=-2, axis2=-1)


@jax.custom_jvp
def self_product(x: jax.Array) -> jax.Array:
  """Returns XᵀX for X of shape `[..., N, d]`."""
  return matmul(x.mT, x)


@self_product.defjvp
def _self_product_jvp(primals, tangents):
  # d(XᵀX) = XᵀdX + dXᵀX = T + Tᵀ with T = XᵀdX: one product, where the product
  # rule makes two. Its transpose is X (G + Gᵀ): one product in reverse, too.
  (x,), (x_dot,) = primals, tangents
  t = matmul(x.mT, x_dot)
  return self_product(x), t + t.mT
