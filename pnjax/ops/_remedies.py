"""Corrections of a normalized matrix by the matrix it came from: Remark 6."""

import jax
from jax.typing import ArrayLike

from pnjax.ops import _checks
from pnjax.ops import _elementwise
from pnjax.ops import _linalg


def trace_compensate(
  psi: ArrayLike, m: ArrayLike, power: ArrayLike, lam: ArrayLike = 1e-6
) -> jax.Array:
  """G* = Ψ (tr M + λ)^γ: gives back the scale that the trace took (Remark 6).

  Args:
    psi: Power Normalization of `m`, `[..., d, d]`.
    m: co-occurrence matrices `[..., d, d]`.
    power: γ > 0.
    lam: λ >= 0, the one used for `psi`.

  Returns:
    Matrices `[..., d, d]`.
  """
  psi, m = _as_pair(psi, m)
  x = _checks.upcast(m)
  power = _checks.as_scalar("power", power, x.dtype, above=0)
  lam = _checks.as_scalar("lam", lam, x.dtype, at_least=0)
  scale = _elementwise.positive_power(_linalg.trace(x) + lam, power)
  return (_checks.upcast(psi) * scale[..., None, None]).astype(psi.dtype)


def add_residual(psi: ArrayLike, m: ArrayLike, kappa: ArrayLike) -> jax.Array:
  """G‡ = Ψ + κM: keeps gradients alive where Ψ is saturated (Remark 6).

  Args:
    psi: Power Normalization of `m`, `[..., d, d]`.
    m: co-occurrence matrices `[..., d, d]`.
    kappa: weight κ.

  Returns:
    Matrices `[..., d, d]`.
  """
  psi, m = _as_pair(psi, m)
  x = _checks.upcast(m)
  kappa = _checks.as_scalar("kappa", kappa, x.dtype)
  return (_checks.upcast(psi) + kappa * x).astype(psi.dtype)


def _as_pair(psi: ArrayLike, m: ArrayLike) -> tuple[jax.Array, jax.Array]:
  psi = _checks.as_square("psi", psi)
  m = _checks.as_square("m", m)
  if psi.shape != m.shape:
    raise ValueError(
      f"`psi` has shape {psi.shape} and `m` {m.shape}, expected the same: "
      "`psi` is the Power Normalization of `m`."
    )
  return psi, m.astype(psi.dtype)
