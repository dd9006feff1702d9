"""Division by N and by the trace, with derivatives that are finite at any scale.

Totals overflow before what they are divided into does: float32 squares of features of
1e18 have no finite sum, and the quotient rule squares the sum again. Every array is
therefore divided by its own largest entry first, a constant, so that all factors stay
near one. Then it is multiplied by the reciprocal of the total: XLA would turn a second
division into one by the product, which overflows again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax import lax
import jax.numpy as jnp

from pnjax.ops import _checks
from pnjax.ops import _linalg

if TYPE_CHECKING:
  from jax import Array
  from jaxtyping import Float
  from jaxtyping import ScalarLike


_MARGIN = 64


def sum_normalize(x: Float[Array, "*batch d"], lam: Array) -> Float[Array, "*batch d"]:
  """Return x/(Σx + λ), or zero where x is."""
  scale = _constant_scale(jnp.max(jnp.abs(x), axis=-1, keepdims=True), lam)
  x = x / scale
  return x * (1 / _nonzero(jnp.sum(x, axis=-1, keepdims=True) + lam / scale))


def trace_normalize(
  m: Float[Array, "*batch d d"], lam: ScalarLike
) -> Float[Array, "*batch d d"]:
  """Return M/(tr M + λ) with its exact derivative, or zero where M is.

  With t = tr M + λ, the cotangent G of M/t becomes G/t − I⟨G, M⟩/t². The matrix T
  in the paper's appendices keeps only the diagonal of M in the second term.
  """
  lam = _checks.as_scalar("lam", lam, m.dtype, at_least=0)
  diagonal = jnp.abs(jnp.diagonal(m, axis1=-2, axis2=-1))
  scale = _constant_scale(jnp.max(diagonal, axis=-1)[..., None, None], lam)
  m = m / scale
  return m * (1 / _nonzero(_linalg.trace(m)[..., None, None] + lam / scale))


def scale_features(
  phi: Float[Array, "*batch N d"], lam: ScalarLike | None = None
) -> Float[Array, "*batch N d"]:
  """Return X with XᵀX = M, or XᵀX = M/(tr M + λ) if λ is given."""
  x = _checks.upcast(phi)
  x = x / jnp.sqrt(jnp.asarray(x.shape[-2], x.dtype))
  if lam is None:
    return x
  lam = _checks.as_scalar("lam", lam, x.dtype, at_least=0)
  # The square of the scale must not vanish: λ/scale² would be 0/0.
  smallest = 2 * _MARGIN * float(jnp.finfo(x.dtype).tiny) ** 0.5
  largest = jnp.max(jnp.abs(x), axis=(-2, -1), keepdims=True)
  addend = jnp.maximum(jnp.sqrt(lax.stop_gradient(lam)), smallest)
  scale = _constant_scale(largest, addend)
  x = x / scale
  total = jnp.sum(jnp.square(x), axis=(-2, -1), keepdims=True) + lam / scale / scale
  total = _nonzero(total)
  constant = lax.stop_gradient(total)  # Far below one for features below `smallest`.
  return x * (1 / jnp.sqrt(constant) / jnp.sqrt(total / constant))


def _constant_scale(largest: Array, addend: Array) -> Array:
  """Return a constant near the larger of two, or near 1 if both are zero.

  A quotient of two arrays that are divided by it does not depend on it, and neither
  does its derivative.
  """
  # The reciprocal of the largest numbers, by which XLA multiplies, would vanish.
  return lax.stop_gradient(_nonzero(jnp.maximum(largest, addend))) / _MARGIN


def _nonzero(x: Array) -> Array:
  return jnp.where(x == 0, 1, x)
