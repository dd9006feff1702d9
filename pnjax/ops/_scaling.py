"""Divisions by N and by the trace, with derivatives that survive any scale.

A division rule needs the square of its denominator, and that of tr M leaves
float32 at features of 1e10 already. Where a total is divided by, it is divided by
its own (constant) value first, so that every factor stays near one.
"""

import jax
from jax import lax
import jax.numpy as jnp
from jax.typing import ArrayLike

from pnjax.ops import _checks
from pnjax.ops import _linalg


def divide_by_total(x: jax.Array, total: jax.Array) -> jax.Array:
  """Returns x / total, and x where the total is zero."""
  total, scale = _nonzero_and_constant(total)
  return (x / scale) / (total / scale)


def trace_normalize(m: jax.Array, lam: ArrayLike) -> jax.Array:
  """Returns M/(tr M + λ), exact also in its derivative.

  With t = tr M + λ, the cotangent G of M/t becomes G/t − I⟨G, M⟩/t². The matrix T
  of the paper's appendices keeps only the diagonal of M in the second term.
  """
  lam = _checks.as_scalar("lam", lam, m.dtype, at_least=0)
  return divide_by_total(m, _linalg.trace(m)[..., None, None] + lam)


def scale_features(phi: jax.Array) -> jax.Array:
  """Returns X with XᵀX = M, the co-occurrence matrix of the features φ."""
  x = _checks.upcast(phi)
  return x / jnp.sqrt(jnp.asarray(x.shape[-2], x.dtype))


def trace_normalize_features(phi: jax.Array, lam: ArrayLike) -> jax.Array:
  """Returns X with XᵀX = M/(tr M + λ)."""
  x = scale_features(phi)
  lam = _checks.as_scalar("lam", lam, x.dtype, at_least=0)
  total = jnp.sum(jnp.square(x), axis=(-2, -1), keepdims=True) + lam
  total, scale = _nonzero_and_constant(total)
  return x / jnp.sqrt(scale) / jnp.sqrt(total / scale)


def _nonzero_and_constant(total: jax.Array) -> tuple[jax.Array, jax.Array]:
  total = jnp.where(total == 0, 1, total)
  return total, lax.stop_gradient(total)
