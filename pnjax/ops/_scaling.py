"""Division by N and by the trace, with derivatives that are finite at any scale.

The quotient rule squares the denominator, and (tr M)² already overflows float32 for
features of 1e10. Every total is therefore divided by its own (constant) value first,
so that all factors stay near one.
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


def divide_by_total(x: Array, total: Array) -> Array:
  """Return x / total, or x where the total is zero."""
  total, scale = _nonzero_and_constant(total)
  return (x / scale) / (total / scale)


def trace_normalize(
  m: Float[Array, "*batch d d"], lam: ScalarLike
) -> Float[Array, "*batch d d"]:
  """Return M/(tr M + λ) with its exact derivative.

  With t = tr M + λ, the cotangent G of M/t becomes G/t − I⟨G, M⟩/t². The matrix T
  in the paper's appendices keeps only the diagonal of M in the second term.
  """
  lam = _checks.as_scalar("lam", lam, m.dtype, at_least=0)
  return divide_by_total(m, _linalg.trace(m)[..., None, None] + lam)


def scale_features(
  phi: Float[Array, "*batch N d"], lam: ScalarLike | None = None
) -> Float[Array, "*batch N d"]:
  """Return X with XᵀX = M, or XᵀX = M/(tr M + λ) if λ is given."""
  x = _checks.upcast(phi)
  x = x / jnp.sqrt(jnp.asarray(x.shape[-2], x.dtype))
  if lam is None:
    return x
  lam = _checks.as_scalar("lam", lam, x.dtype, at_least=0)
  total = jnp.sum(jnp.square(x), axis=(-2, -1), keepdims=True) + lam
  total, scale = _nonzero_and_constant(total)
  return x / jnp.sqrt(scale) / jnp.sqrt(total / scale)


def _nonzero_and_constant(total: Array) -> tuple[Array, Array]:
  total = jnp.where(total == 0, 1, total)
  return total, lax.stop_gradient(total)
