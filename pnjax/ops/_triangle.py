"""The upper triangle of symmetric matrices as vectors, and back."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING
from typing import Any

import jax
from jax import lax
import jax.numpy as jnp
import numpy as np

from pnjax.ops import _checks
from pnjax.ops import _linalg

if TYPE_CHECKING:
  from jax import Array
  from jax.typing import ArrayLike
  from jaxtyping import Float


def triu_vectorize(
  m: Float[ArrayLike, "*batch d d"],
) -> Float[Array, "*batch d*(d+1)//2"]:
  """Upper triangle as a vector, with off-diagonal entries multiplied by √2.

  For symmetric A and B, ⟨triu_vectorize(A), triu_vectorize(B)⟩ = ⟨A, B⟩: half
  the length, and the same kernel.

  >>> triu_vectorize(jnp.array([[1.0, 2.0], [2.0, 3.0]])).tolist()
  [1.0, 2.83, 3.0]

  Args:
    m: Symmetric matrices.

  Returns:
    Vectors in the order of `numpy.triu_indices`.
  """
  m = _checks.as_square("m", m)
  x = _checks.upcast(m)
  return _pack(_off_diagonal_times(math.sqrt(2), x)).astype(m.dtype)


def triu_unvectorize(v: Float[ArrayLike, "*batch l"]) -> Float[Array, "*batch d d"]:
  """Inverse of `triu_vectorize`.

  Args:
    v: Vectors of length d(d + 1)/2.

  Returns:
    Symmetric matrices.
  """
  v = _checks.as_floating("v", v)
  length = v.shape[-1] if v.ndim else 0
  dim = (math.isqrt(8 * length + 1) - 1) // 2
  if dim < 1 or dim * (dim + 1) // 2 != length:
    raise ValueError(
      f"`v` has shape {v.shape}, expected [..., d(d + 1)/2] for an integer "
      f"d >= 1; the nearest is d = {max(dim, 1)}, length "
      f"{max(dim, 1) * (max(dim, 1) + 1) // 2}."
    )
  x = _checks.upcast(v)
  upper = _off_diagonal_times(1 / math.sqrt(2), _unpack(x, dim))
  return (upper + jnp.triu(upper, 1).mT).astype(v.dtype)


def _off_diagonal_times(factor: float, m: Array) -> Array:
  diagonal = jnp.eye(m.shape[-1], dtype=bool)
  return m * jnp.broadcast_to(jnp.where(diagonal, 1.0, factor), m.shape).astype(m.dtype)


@jax.custom_jvp
def _pack(m: Float[Array, "*batch d d"]) -> Float[Array, "*batch d*(d+1)//2"]:
  """Return the upper triangles, row by row."""
  return _take(m)


@_pack.defjvp
def _pack_jvp(primals, tangents):
  (m,), (m_dot,) = primals, tangents
  v, put = _pack(m), functools.partial(_put, dim=m.shape[-1])
  return v, _linalg.linear_map(_take, put, m_dot, v.shape)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def _unpack(
  v: Float[Array, "*batch d*(d+1)//2"], dim: int
) -> Float[Array, "*batch d d"]:
  """Return matrices with the given upper triangles, and zeros below."""
  return _put(v, dim)


@_unpack.defjvp
def _unpack_jvp(dim, primals, tangents):
  (v,), (v_dot,) = primals, tangents
  m, put = _unpack(v, dim), functools.partial(_put, dim=dim)
  return m, _linalg.linear_map(put, _take, v_dot, m.shape)


def _take(m):
  return lax.platform_dependent(m, tpu=pack_by_rows, default=_gather)


def _put(v, dim):
  by_rows, scatter = (functools.partial(f, dim=dim) for f in (unpack_by_rows, _scatter))
  return lax.platform_dependent(v, tpu=by_rows, default=scatter)


# Properties of `_positions` that XLA need not check: they make the scatter several
# times faster.
_UNCHECKED: dict[str, Any] = {
  "mode": "promise_in_bounds",
  "unique_indices": True,
  "indices_are_sorted": True,
}


def _gather(m):
  dim = m.shape[-1]
  flat = m.reshape(*m.shape[:-2], dim * dim)
  return flat.at[..., _positions(dim)].get(**_UNCHECKED)


def _scatter(v, dim):
  flat = jnp.zeros((*v.shape[:-1], dim * dim), v.dtype)
  flat = flat.at[..., _positions(dim)].set(v, **_UNCHECKED)
  return flat.reshape(*v.shape[:-1], dim, dim)


def _positions(dim: int) -> np.ndarray:
  """Positions of the upper triangle in the flattened matrix."""
  return np.ravel_multi_index(np.triu_indices(dim), (dim, dim)).astype(np.int32)


# A TPU has no fast gather nor scatter of single entries: at d = 2058 they would move
# ten times as many bytes as all the rest of a training step. It moves rows.
def pack_by_rows(m: Array) -> Array:
  """Return the same as `_gather`, row by row."""
  dim = m.shape[-1]
  length = dim * (dim + 1) // 2

  def add_row(i, out):
    # Row i, rotated to begin with its diagonal entry. The entries from below the
    # diagonal, which are now at its end, are overwritten by the next rows.
    row = lax.dynamic_index_in_dim(m, i, axis=-2, keepdims=False)
    return lax.dynamic_update_slice_in_dim(out, _rotate(row, i), _start(i, dim), -1)

  out = _linalg.zeros_of(m, (*m.shape[:-2], length + dim - 1))
  return lax.fori_loop(0, dim, add_row, out)[..., :length]


def unpack_by_rows(v: Array, dim: int) -> Array:
  """Return the same as `_scatter`, row by row."""
  columns = jnp.arange(dim)
  padding = _linalg.zeros_of(v, (*v.shape[:-1], dim - 1))
  padded = jnp.concatenate([v, padding], axis=-1)

  def add_row(i, out):
    row = lax.dynamic_slice_in_dim(padded, _start(i, dim), dim, axis=-1)
    row = jnp.where(columns >= i, _rotate(row, dim - i), 0)
    return lax.dynamic_update_index_in_dim(out, row, i, axis=-2)

  return lax.fori_loop(0, dim, add_row, _linalg.zeros_of(v, (*v.shape[:-1], dim, dim)))


def _start(i: Array, dim: int) -> Array:
  """Return the position of the diagonal entry of row i in the vector."""
  return i * dim - i * (i - 1) // 2


def _rotate(row: Array, count: Array) -> Array:
  """Return the entries from `count` on, followed by those before."""
  doubled = jnp.concatenate([row, row], axis=-1)
  return lax.dynamic_slice_in_dim(doubled, count, row.shape[-1], axis=-1)
