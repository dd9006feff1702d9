"""Matrix helpers shared by the operators."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import jax
from jax import lax
import jax.numpy as jnp

if TYPE_CHECKING:
  from jax import Array
  from jaxtyping import Float


def matmul(a: Array, b: Array) -> Array:
  """Matrix product in full precision.

  By default, float32 products run in TF32 on recent GPUs and in bfloat16 on TPUs.
  Power Normalizations magnify small entries and the errors in them.
  """
  return jnp.matmul(a, b, precision=lax.Precision.HIGHEST)


def identity_like(m: Float[Array, "*batch n n"]) -> Float[Array, "*batch n n"]:
  """Identity matrices of the shape and dtype of `m`."""
  return jnp.broadcast_to(jnp.eye(m.shape[-1], dtype=m.dtype), m.shape)


def sym(m: Array) -> Array:
  """Symmetric part (M + Mᵀ) / 2."""
  return (m + m.mT) / 2


def symmetric_product(
  x: Float[Array, "*batch N d"], g: Float[Array, "*batch d d"]
) -> Float[Array, "*batch N d"]:
  """Return X (G + Gᵀ).

  The only product with its d×d cotangent that the derivative of a pooling operator
  needs.
  """
  return _by_columns(x, g, (), lambda total: total)


def weighted_symmetric_product(
  x: Float[Array, "*batch N d"],
  g: Float[Array, "*batch d d"],
  weights: Callable[..., Array],
  *matrices: Float[Array, "*batch d d"],
) -> Float[Array, "*batch N d"]:
  """Return X ((G + Gᵀ) ⊙ W) for W = `weights(*matrices)`, an element-wise function."""
  return _by_columns(x, g, matrices, lambda total, *m: total * weights(*m))


def _by_columns(x, g, matrices, weigh):
  """Return X weigh(G + Gᵀ, *matrices), in blocks of columns where that is faster.

  A block fits in the cache of a CPU; the whole sum makes a round trip to memory.
  """
  dim = g.shape[-1]
  num_blocks = -(-dim // _BLOCK)
  width = -(-dim // num_blocks)

  def at_once(x, g, *matrices):
    return matmul(x, weigh(g + g.mT, *matrices))

  def in_blocks(x, g, *matrices):
    def add_block(i, out):
      # The last block starts early instead of being narrower: its overlap with the
      # previous block is written twice, with the same values.
      start = jnp.minimum(i * width, dim - width)
      rows = lax.dynamic_slice_in_dim(g, start, width, axis=-2)
      columns, *others = (
        lax.dynamic_slice_in_dim(a, start, width, axis=-1) for a in (g, *matrices)
      )
      block = matmul(x, weigh(columns + rows.mT, *others))
      return lax.dynamic_update_slice_in_dim(out, block, start, axis=-1)

    return lax.fori_loop(0, num_blocks, add_block, zeros_of(x, x.shape))

  if num_blocks == 1:
    return at_once(x, g, *matrices)
  return lax.platform_dependent(x, g, *matrices, cpu=in_blocks, default=at_once)


# Maximum number of columns per block. At d = 2058 on two cores, widths of 200 to 600
# were indistinguishable, and 5 to 10% faster than no blocks, barely above the noise.
_BLOCK = 512


def zeros_of(x: Array, shape: Sequence[int]) -> Array:
  """Return zeros that are a function of `x`.

  Inside `jax.shard_map`, they vary over devices as `x` does, which the first value of a
  loop must do if the others do.
  """
  return jnp.broadcast_to(jnp.sum(x[..., :0]), shape)


def vary_together(*trees: Any) -> Any:
  """Return trees of arrays that vary over the same devices of a `jax.shard_map`.

  A custom derivative has to return a cotangent that varies as the argument does. What
  the shards share, such as a parameter, varies from here on, and JAX sums the
  cotangents of all shards. Nothing else changes: what is added is zero.
  """
  leaves = [x for x in jax.tree.leaves(trees) if jnp.issubdtype(x.dtype, jnp.inexact)]
  zero = sum(zeros_of(x.ravel(), ()).astype(leaves[0].dtype) for x in leaves)

  def vary(x):
    return x + zero.astype(x.dtype) if jnp.issubdtype(x.dtype, jnp.inexact) else x

  return jax.tree.map(vary, trees)


def linear_map(
  apply: Callable[[Array], Array],
  transpose: Callable[[Array], Array],
  x: Array,
  shape: Sequence[int],
) -> Array:
  """Return `apply(x)` for a linear function with a transpose of its own.

  For the rule of a `custom_jvp`: unlike a `custom_vjp`, it leaves forward mode and
  higher derivatives intact, and unlike the transpose that JAX derives, `transpose` may
  be written for speed.

  Args:
    apply: Linear function A from `x` to an array of the given shape.
    transpose: Its transpose Aᵀ.
    x: Argument.
    shape: Shape of the result.
  """
  # JAX has no public way to state a transpose except that of a linear solver. The
  # system [[I, 0], [−A, I]] [u; v] = [x; 0] has the solution u = x, v = Ax, and the
  # transposed one, for a right-hand side [a; b], has v = b, u = a + Aᵀb.
  zero = zeros_of(x, shape)  # Linear in x, as it has to be.
  u, out = lax.custom_linear_solve(
    lambda uv: (uv[0], uv[1] - apply(uv[0])),
    (x, zero),
    lambda _, b: (b[0], b[1] + apply(b[0])),
    lambda _, b: (b[0] + transpose(b[1]), b[1]),
  )
  # Adds nothing. If the result did not depend on u, the cotangent of u would be a zero
  # that JAX does not differentiate again.
  return out + jnp.where(False, u[(0,) * u.ndim], 0)


@jax.custom_jvp
def trace(m: Float[Array, "*batch d d"]) -> Float[Array, "*batch"]:
  """Trace over the last two axes."""
  return jnp.sum(jnp.diagonal(m, axis1=-2, axis2=-1), axis=-1)


@trace.defjvp
def _trace_jvp(primals, tangents):
  # Only the forward pass reads the diagonal: the transpose would be a scatter,
  # whereas that of the masked sum in `jnp.trace` fuses with its surroundings.
  (m,), (m_dot,) = primals, tangents
  return trace(m), jnp.trace(m_dot, axis1=-2, axis2=-1)


@jax.custom_jvp
def self_product(x: Float[Array, "*batch N d"]) -> Float[Array, "*batch d d"]:
  """Return XᵀX."""
  return matmul(x.mT, x)


@self_product.defjvp
def _self_product_jvp(primals, tangents):
  # d(XᵀX) = XᵀdX + dXᵀX = T + Tᵀ with T = XᵀdX: one product where the product rule
  # needs two. The transpose, X (G + Gᵀ), is one product as well.
  (x,), (x_dot,) = primals, tangents
  t = matmul(x.mT, x_dot)
  return self_product(x), t + t.mT
