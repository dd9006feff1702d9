"""Spectral Power Normalizations of matrices: Sec. 4.4 and Table 2."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING
from typing import Any

import jax
import jax.numpy as jnp

from pnjax.ops import _checks
from pnjax.ops import _routes
from pnjax.ops import _scaling
from pnjax.ops import _spectrum
from pnjax.ops._linalg import matmul
from pnjax.ops._linalg import sym
from pnjax.ops._linalg import vary_together

if TYPE_CHECKING:
  from jax import Array
  from jax.typing import ArrayLike
  from jaxtyping import Float
  from jaxtyping import ScalarLike


def spectral_gamma(
  m: Float[ArrayLike, "*batch d d"], power: ScalarLike
) -> Float[Array, "*batch d d"]:
  """Spectral Gamma, M^γ; with γ = ½ the matrix square root of MPN-COV.

  The slope of x^γ at zero is infinite, so the derivative omits the block of
  eigenvalues that are zero up to rounding. It is finite everywhere, and accurate
  where the smallest eigenvalue is positive.

  Args:
    m: Symmetric positive semi-definite matrices.
    power: Exponent γ > 0, usually at most 1.

  Returns:
    Normalized matrices.
  """
  return _normalize(_spectrum.GAMMA, m, power=power)


def spectral_maxexp(
  m: Float[ArrayLike, "*batch d d"], eta: ScalarLike, lam: ScalarLike = 1e-6
) -> Float[Array, "*batch d d"]:
  """Spectral MaxExp, I − (I − M/(tr M + λ))^η.

  Args:
    m: Symmetric positive semi-definite matrices.
    eta: Real exponent η > 0, at least 1 in the paper.
    lam: Constant λ >= 0 added to the trace.

  Returns:
    Matrices with eigenvalues from 0 to 1.
  """
  return _normalize(_spectrum.MAXEXP, m, _checks.check_lam(lam), eta=eta)


def spectral_asinhe(
  m: Float[ArrayLike, "*batch d d"], gamma_prime: ScalarLike
) -> Float[Array, "*batch d d"]:
  """Spectral AsinhE, log(γ'M + (I + γ'²M²)^½).

  Args:
    m: Symmetric matrices.
    gamma_prime: Slope γ' > 0 at zero.

  Returns:
    Normalized matrices.
  """
  return _normalize(_spectrum.ASINHE, m, gamma_prime=gamma_prime)


def spectral_sigme(
  m: Float[ArrayLike, "*batch d d"], eta_prime: ScalarLike, lam: ScalarLike = 1e-6
) -> Float[Array, "*batch d d"]:
  """Spectral SigmE, 2(I + exp(−η'M/(tr M + λ)))⁻¹ − I.

  Args:
    m: Symmetric matrices.
    eta_prime: Parameter η' > 0, twice the slope at zero.
    lam: Constant λ >= 0 added to the trace.

  Returns:
    Matrices with eigenvalues from −1 to 1.
  """
  return _normalize(_spectrum.SIGME, m, _checks.check_lam(lam), eta_prime=eta_prime)


def _normalize(
  f: _spectrum.SpectralFunction,
  m: ArrayLike,
  lam: ScalarLike | None = None,
  **parameter: ScalarLike,
) -> Array:
  """Return ψ(M), or ψ(M/(tr M + λ)) if λ is given, for one named parameter."""
  m = _checks.as_square("m", m)
  x = _checks.upcast(m)
  x = x if lam is None else _scaling.trace_normalize(x, lam)
  scalar = _checks.as_positive(x.dtype, **parameter)
  compute = _routes.reverse_mode(compiled_matrix_function)
  return compute(f, x, scalar).astype(m.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def matrix_function(
  f: _spectrum.SpectralFunction, m: Float[Array, "*batch d d"], parameters: Any
) -> Float[Array, "*batch d d"]:
  """Return U ψ(Λ) Uᵀ, where U Λ Uᵀ is the symmetric part of `m`."""
  return _matrix_function_fwd(f, m, parameters)[0]


def _matrix_function_fwd(f, m, parameters):
  w, u = jnp.linalg.eigh(m)
  # `eigh` returns zero eigenvalues as up to two rounding units of the largest, with
  # either sign; the negative ones would have no real power.
  w = zero_below(4 * float(jnp.finfo(w.dtype).eps), w)
  out = matmul(u * f.value(w, parameters)[..., None, :], u.mT)
  return out, (w, u, parameters)


def _matrix_function_bwd(f, residuals, g):
  # Daleckii–Krein: in the eigenbasis, the derivative of F = ψ(M) is an element-wise
  # product with the divided differences L_ij = ψ[λ_i, λ_j],
  #   dF = U (L ⊙ (Uᵀ dM U)) Uᵀ.
  # L is symmetric, so the adjoint applies the same operation to the cotangent G,
  # symmetrised because M is. Nothing is divided by a difference of eigenvalues, so
  # ties are harmless. For a parameter p, ∂F/∂p = U ∂ψ/∂p(Λ) Uᵀ.
  w, u, parameters = residuals
  b = matmul(u.mT, matmul(sym(g), u))
  divided = f.divided_difference(w[..., :, None], w[..., None, :], parameters)
  m_bar = matmul(u, matmul(divided * b, u.mT))
  return m_bar, parameter_cotangents(f, w, b, parameters)


matrix_function.defvjp(_matrix_function_fwd, _matrix_function_bwd)


@functools.partial(jax.jit, static_argnums=0)
def compiled_matrix_function(f, m, parameters):
  """Return `matrix_function`, compiled."""
  return matrix_function(f, *vary_together(m, parameters))


def parameter_cotangents(
  f: _spectrum.SpectralFunction,
  w: Float[Array, "*batch n"],
  b: Float[Array, "*batch n n"],
  parameters: Any,
) -> Any:
  """Return the cotangent Σᵢ Bᵢᵢ ∂ψ(wᵢ)/∂p of each parameter p, with B = UᵀGU."""
  _, pull_back = jax.vjp(functools.partial(f.value, w), parameters)
  return pull_back(jnp.diagonal(b, axis1=-2, axis2=-1))[0]


def zero_below(
  tolerance: float, w: Float[Array, "*batch n"]
) -> Float[Array, "*batch n"]:
  """Set to zero all eigenvalues up to `tolerance` times the largest."""
  largest = jnp.max(jnp.abs(w), axis=-1, keepdims=True)
  return jnp.where(jnp.abs(w) <= tolerance * largest, 0, w)
