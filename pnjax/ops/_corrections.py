"""Corrections to a normalized matrix that use the original one: Remark 6."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pnjax.ops import _checks
from pnjax.ops import _elementwise
from pnjax.ops import _linalg

if TYPE_CHECKING:
  from jax import Array
  from jax.typing import ArrayLike
  from jaxtyping import Float
  from jaxtyping import ScalarLike


def trace_compensate(
  psi: Float[ArrayLike, "*batch d d"],
  m: Float[ArrayLike, "*batch d d"],
  power: ScalarLike,
  lam: ScalarLike = 1e-6,
) -> Float[Array, "*batch d d"]:
  """Restore the scale removed with the trace: G* = Ψ (tr M + λ)^γ (Remark 6).

  Args:
    psi: Power Normalization of `m`.
    m: Co-occurrence matrices.
    power: Exponent γ > 0.
    lam: Constant λ >= 0 added to the trace, the same as for `psi`.

  Returns:
    Compensated matrices.
  """
  psi, m = _as_pair(psi, m)
  x = _checks.upcast(m)
  power = _checks.as_scalar("power", power, x.dtype, above=0)
  lam = _checks.as_scalar("lam", lam, x.dtype, at_least=0)
  scale = _elementwise.positive_power(_linalg.trace(x) + lam, power)
  return (_checks.upcast(psi) * scale[..., None, None]).astype(psi.dtype)


def add_residual(
  psi: Float[ArrayLike, "*batch d d"],
  m: Float[ArrayLike, "*batch d d"],
  kappa: ScalarLike,
) -> Float[Array, "*batch d d"]:
  """Keep gradients alive where Ψ saturates: G‡ = Ψ + κM (Remark 6).

  Args:
    psi: Power Normalization of `m`.
    m: Co-occurrence matrices.
    kappa: Weight κ of the residual.

  Returns:
    Matrices with the residual added.
  """
  psi, m = _as_pair(psi, m)
  x = _checks.upcast(m)
  kappa = _checks.as_scalar("kappa", kappa, x.dtype)
  return (_checks.upcast(psi) + kappa * x).astype(psi.dtype)


def _as_pair(psi: ArrayLike, m: ArrayLike) -> tuple[Array, Array]:
  psi = _checks.as_square("psi", psi)
  m = _checks.as_square("m", m)
  if psi.shape != m.shape:
    raise ValueError(
      f"`psi` has shape {psi.shape} and `m` {m.shape}, expected the same shape; "
      "pass the Power Normalization of `m` as `psi`."
    )
  return psi, m.astype(psi.dtype)
