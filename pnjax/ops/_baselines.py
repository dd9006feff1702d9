"""Normalizations from the literature, as baselines for Power Normalizations.

MPN-COV is `spectral_gamma` with γ = ½.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

import jax
from jax import lax
import jax.numpy as jnp

from pnjax.ops import _checks
from pnjax.ops import _elementwise
from pnjax.ops import _linalg
from pnjax.ops import _matrix_sqrt
from pnjax.ops import _routes
from pnjax.ops import _scaling
from pnjax.ops import _spectral
from pnjax.ops import _spectrum
from pnjax.ops._linalg import identity_like
from pnjax.ops._linalg import matmul
from pnjax.ops._linalg import sym

if TYPE_CHECKING:
  from jax import Array
  from jax.typing import ArrayLike
  from jaxtyping import Float
  from jaxtyping import ScalarLike


def signed_sqrt(x: Float[ArrayLike, "*shape"]) -> Float[Array, "*shape"]:
  """Element-wise signed square root sign(x) √|x|, with derivative 0 at 0.

  Args:
    x: Array of any shape.

  Returns:
    Signed square roots of the entries of `x`.

  References:
    Lin, RoyChowdhury and Maji, Bilinear CNN Models for Fine-grained Visual
    Recognition, ICCV 2015.
  """
  x = _checks.as_floating("x", x)
  z = _checks.upcast(x)
  root = _elementwise.positive_power(jnp.abs(z), jnp.asarray(0.5, z.dtype))
  return (jnp.sign(z) * root).astype(x.dtype)


def l2_normalize(
  x: Float[ArrayLike, "*shape"], axis: int | tuple[int, ...] = -1
) -> Float[Array, "*shape"]:
  """Scale to unit length, x / ‖x‖; zero stays zero, with derivative 0.

  Args:
    x: Array of any shape.
    axis: Axis or axes over which the length is computed.

  Returns:
    Scaled array.
  """
  x = _checks.as_floating("x", x)
  z = _checks.upcast(x)
  largest = jnp.max(jnp.abs(z), axis=axis, keepdims=True)
  zero = largest == 0  # False for NaN, which must propagate.
  # Squares leave the range of float32 beyond 1e±19, so scale the largest entry to 1.
  z = z / lax.stop_gradient(jnp.where(zero, 1, largest))
  squares = jnp.sum(jnp.square(z), axis=axis, keepdims=True)
  length = jnp.sqrt(jnp.where(zero, 1, squares))
  return jnp.where(zero, 0, z / length).astype(x.dtype)


def matrix_log(
  m: Float[ArrayLike, "*batch d d"], lam: ScalarLike
) -> Float[Array, "*batch d d"]:
  """Matrix logarithm log(M + λI) of the log-Euclidean metric.

  Args:
    m: Symmetric positive semi-definite matrices.
    lam: Constant λ >= 0, which keeps the logarithm of zero eigenvalues finite.

  Returns:
    Matrix logarithms.

  References:
    Arsigny et al., Log-Euclidean Metrics for Fast and Simple Calculus on
    Diffusion Tensors, MRM 2006.
  """
  m = _checks.as_square("m", m)
  x = _checks.upcast(m)
  lam = _checks.as_scalar("lam", lam, x.dtype, at_least=0)
  compute = _routes.reverse_mode(_spectral.compiled_matrix_function)
  return compute(_spectrum.LOG, x, lam).astype(m.dtype)


def newton_schulz_sqrt(
  m: Float[ArrayLike, "*batch d d"], iterations: int = 5
) -> Float[Array, "*batch d d"]:
  """Approximate matrix square root by Newton–Schulz iterations (iSQRT-COV).

  The matrix is divided by its trace before the coupled iteration, and the
  result is multiplied by the square root of the trace. Small eigenvalues need
  many iterations; `spectral_gamma` with γ = ½ is exact.

  Args:
    m: Symmetric positive semi-definite matrices.
    iterations: Number of iterations, 5 in the iSQRT-COV paper.

  Returns:
    Approximate matrix square roots.

  References:
    Li et al., Towards Faster Training of Global Covariance Pooling Networks by
    Iterative Matrix Square Root Normalization, CVPR 2018.
  """
  m = _checks.as_square("m", m)
  iterations = _checks.as_count("iterations", iterations)
  x = _checks.upcast(m)
  identity = identity_like(x)
  y, z = _scaling.trace_normalize(x, 0), identity
  for _ in range(iterations):
    t = (3 * identity - matmul(z, y)) / 2
    y, z = matmul(y, t), matmul(t, z)
  half = jnp.asarray(0.5, x.dtype)
  root = _elementwise.positive_power(_linalg.trace(x), half)
  return (root[..., None, None] * y).astype(m.dtype)


def pade_sqrt(
  m: Float[ArrayLike, "*batch d d"], degree: int = 5, iterations: int = 8
) -> Float[Array, "*batch d d"]:
  """Approximate matrix square root by a Padé approximant (MPA-Lya).

  The matrix is first divided by its Frobenius norm, and the result is multiplied by
  the square root of the norm. An eigenvalue λ of the divided matrix becomes
  √λ coth((2 `degree` + 1) artanh √λ): small ones come out too large, zero as
  1/(2 `degree` + 1). The derivative solves the Lyapunov equation of the square root by
  iterations instead of differentiating the approximant. `spectral_gamma` with γ = ½ is
  exact.

  Args:
    m: Symmetric positive semi-definite matrices.
    degree: Degree of the numerator and of the denominator, 5 in the paper.
    iterations: Number of iterations of the derivative, 8 in the paper.

  Returns:
    Approximate matrix square roots.

  References:
    Song, Sebe and Wang, Fast Differentiable Matrix Square Root, ICLR 2022.
  """
  m = _checks.as_square("m", m)
  degree = _checks.as_count("degree", degree)
  iterations = _checks.as_count("iterations", iterations)
  return _pade_sqrt(_checks.upcast(m), degree, iterations).astype(m.dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def _pade_sqrt(
  a: Float[Array, "*batch d d"], degree: int, iterations: int
) -> Float[Array, "*batch d d"]:
  # With r = √x and n = 2 degree + 1, the even terms of (1 + r)ⁿ divided by the odd ones
  # are coth(n artanh r), and r times it is a quotient of two polynomials in x.
  x, norm = _unit_norm(sym(a))
  even = odd = jnp.zeros_like(x)
  for k in reversed(range(degree + 1)):
    n, identity = 2 * degree + 1, identity_like(x)
    even = matmul(even, x) + math.comb(n, 2 * k) * identity
    odd = matmul(odd, x) + math.comb(n, 2 * k + 1) * identity
  # The denominator is positive definite.
  root = jax.scipy.linalg.cho_solve((jnp.linalg.cholesky(odd), True), even)
  return jnp.sqrt(norm) * sym(root)


@_pade_sqrt.defjvp
def _pade_sqrt_jvp(degree, iterations, primals, tangents):
  # S² = A, so that S dS + dS S = dA, which is divided by the norm of S.
  (a,), (a_dot,) = primals, tangents
  s = _pade_sqrt(a, degree, iterations)
  unit, norm = _unit_norm(s)
  a_dot = sym(a_dot) / jnp.where(norm == 0, 1, norm)
  return s, _matrix_sqrt.solve_lyapunov(unit, a_dot, (1.0,) * iterations)


def _unit_norm(x: Array) -> tuple[Array, Array]:
  """Return matrices divided by their Frobenius norm and the norm; zero stays zero."""
  unit = l2_normalize(x, axis=(-2, -1))
  return unit, jnp.sum(unit * x, axis=(-2, -1), keepdims=True)
