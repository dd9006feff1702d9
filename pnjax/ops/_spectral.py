"""Spectral Power Normalizations of matrices: Sec. 4.4 and Table 2."""

import functools

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from pnjax.ops import _checks
from pnjax.ops import _scaling
from pnjax.ops import _spectrum
from pnjax.ops._linalg import matmul
from pnjax.ops._linalg import sym


def spectral_gamma(m: ArrayLike, power: ArrayLike) -> jax.Array:
  """Spectral Gamma M^γ; with γ = ½ the matrix square root of MPN-COV.

  The slope of x^γ at zero is infinite. Eigenvalues that are zero up to rounding
  therefore take no part in the derivative among themselves, which is finite
  everywhere and accurate where the smallest eigenvalue is positive.

  Args:
    m: symmetric positive semi-definite matrices `[..., d, d]`.
    power: γ > 0, usually up to 1.

  Returns:
    Matrices `[..., d, d]`.
  """
  m = _checks.as_square("m", m)
  x = _checks.upcast(m)
  power = _checks.as_scalar("power", power, x.dtype, above=0)
  return matrix_function(_spectrum.GAMMA, x, power).astype(m.dtype)


def spectral_maxexp(m: ArrayLike, eta: ArrayLike, lam: ArrayLike = 1e-6) -> jax.Array:
  """Spectral MaxExp I − (I − M/(tr M + λ))^η.

  Args:
    m: symmetric positive semi-definite matrices `[..., d, d]`.
    eta: η > 0, at least 1 in the paper; real.
    lam: λ >= 0.

  Returns:
    Matrices `[..., d, d]` with eigenvalues from 0 to 1.
  """
  m = _checks.as_square("m", m)
  x = _scaling.trace_normalize(_checks.upcast(m), lam)
  eta = _checks.as_scalar("eta", eta, x.dtype, above=0)
  return matrix_function(_spectrum.MAXEXP, x, eta).astype(m.dtype)


def spectral_asinhe(m: ArrayLike, gamma_prime: ArrayLike) -> jax.Array:
  """Spectral AsinhE log(γ'M + (I + γ'²M²)^½).

  Args:
    m: symmetric matrices `[..., d, d]`.
    gamma_prime: γ' > 0.

  Returns:
    Matrices `[..., d, d]`.
  """
  m = _checks.as_square("m", m)
  x = _checks.upcast(m)
  gamma_prime = _checks.as_scalar("gamma_prime", gamma_prime, x.dtype, above=0)
  return matrix_function(_spectrum.ASINHE, x, gamma_prime).astype(m.dtype)


def spectral_sigme(
  m: ArrayLike, eta_prime: ArrayLike, lam: ArrayLike = 1e-6
) -> jax.Array:
  """Spectral SigmE 2(I + exp(−η'M/(tr M + λ)))⁻¹ − I.

  Args:
    m: symmetric matrices `[..., d, d]`.
    eta_prime: η' > 0.
    lam: λ >= 0.

  Returns:
    Matrices `[..., d, d]` with eigenvalues from −1 to 1.
  """
  m = _checks.as_square("m", m)
  x = _scaling.trace_normalize(_checks.upcast(m), lam)
  eta_prime = _checks.as_scalar("eta_prime", eta_prime, x.dtype, above=0)
  return matrix_function(_spectrum.SIGME, x, eta_prime).astype(m.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def matrix_function(
  f: _spectrum.SpectralFunction, m: jax.Array, parameter: jax.Array
) -> jax.Array:
  """Returns U ψ(Λ) Uᵀ for M = U Λ Uᵀ, of the symmetric part of `m`."""
  return _matrix_function_fwd(f, m, parameter)[0]


@functools.partial(jax.jit, static_argnums=0)
def _matrix_function_fwd(f, m, parameter):
  w, u = jnp.linalg.eigh(m)
  # Eigenvalues of zero come out of `eigh` as up to two units of rounding of the
  # largest, of either sign; half of them would have no real power.
  w = zero_below(4 * jnp.finfo(w.dtype).eps, w)
  out = matmul(u * f.value(w, parameter)[..., None, :], u.mT)
  return out, (w, u, parameter)


@functools.partial(jax.jit, static_argnums=0)
def _matrix_function_bwd(f, residuals, g):
  # Daleckii–Krein: in the basis of the eigenvectors the derivative of ψ(M) is
  # an element-wise product with the divided differences L_ij = ψ[λ_i, λ_j],
  #   dF = U (L ⊙ (Uᵀ dM U)) Uᵀ.
  # L is symmetric, so its adjoint is the same map of the cotangent G, and G is
  # symmetrised because M is. No difference of eigenvalues is divided by, which
  # is why ties do no harm. For the parameter, ∂F/∂p = U ∂ψ/∂p(Λ) Uᵀ.
  w, u, parameter = residuals
  b = matmul(u.mT, matmul(sym(g), u))
  divided = f.divided_difference(w[..., :, None], w[..., None, :], parameter)
  m_bar = matmul(u, matmul(divided * b, u.mT))
  return m_bar, parameter_cotangent(f, w, b, parameter)


matrix_function.defvjp(_matrix_function_fwd, _matrix_function_bwd)


def parameter_cotangent(
  f: _spectrum.SpectralFunction,
  w: jax.Array,
  b: jax.Array,
  parameter: jax.Array,
) -> jax.Array:
  """Cotangent Σᵢ Bᵢᵢ ∂ψ(wᵢ)/∂p of a parameter p, with B = UᵀGU."""
  _, slope = jax.jvp(
    functools.partial(f.value, w), (parameter,), (jnp.ones_like(parameter),)
  )
  return jnp.sum(jnp.diagonal(b, axis1=-2, axis2=-1) * slope)


def zero_below(tolerance: float, w: jax.Array) -> jax.Array:
  """Sets eigenvalues to zero that are below `tolerance` of the largest."""
  largest = jnp.max(jnp.abs(w), axis=-1, keepdims=True)
  return jnp.where(jnp.abs(w) <= tolerance * largest, 0, w)
