"""Element-wise Power Normalizations straight from features.

The same matrices as `sigme(cooccurrence(phi), ...)` and the like, fused into one
operator that needs less memory and time: its derivative passes over the cotangent
once and takes the trace from the features.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import jax

from pnjax.ops import _checks
from pnjax.ops import _elementwise
from pnjax.ops import _linalg
from pnjax.ops import _scaling

if TYPE_CHECKING:
  from jax import Array
  from jax.typing import ArrayLike
  from jaxtyping import Float
  from jaxtyping import ScalarLike


def gamma_pool(
  phi: Float[ArrayLike, "*batch N d"], power: ScalarLike, lam: ScalarLike = 1e-6
) -> Float[Array, "*batch d d"]:
  """`gamma(cooccurrence(phi), power, lam)` in one operator.

  Args:
    phi: Feature vectors with non-negative co-occurrences, so not β-centered.
    power: Exponent γ > 0, usually at most 1.
    lam: Constant λ >= 0 added to every entry.

  Returns:
    Normalized matrices.
  """
  phi = _checks.as_features("phi", phi)
  x = _scaling.scale_features(phi)
  power = _checks.as_scalar("power", power, x.dtype, above=0)
  lam = _checks.as_scalar("lam", lam, x.dtype, at_least=0)
  return _pool(_elementwise.GAMMA, x, (power, lam)).astype(phi.dtype)


def maxexp_pool(
  phi: Float[ArrayLike, "*batch N d"], eta: ScalarLike, lam: ScalarLike = 1e-6
) -> Float[Array, "*batch d d"]:
  """`maxexp(cooccurrence(phi), eta, lam)` in one operator.

  Args:
    phi: Feature vectors with non-negative co-occurrences, so not β-centered.
    eta: Exponent η > 0, at least 1 in the paper and about the number of vectors N.
    lam: Constant λ >= 0 added to the trace.

  Returns:
    Matrices with entries from 0 to 1.
  """
  return _normalize(_elementwise.MAXEXP, phi, _checks.check_lam(lam), eta=eta)


def asinhe_pool(
  phi: Float[ArrayLike, "*batch N d"], gamma_prime: ScalarLike
) -> Float[Array, "*batch d d"]:
  """`asinhe(cooccurrence(phi), gamma_prime)` in one operator.

  >>> import jax.numpy as jnp
  >>> asinhe_pool(jnp.array([[0.5, -0.5]]), gamma_prime=4.0).tolist()
  [[0.88, -0.88], [-0.88, 0.88]]

  Args:
    phi: Feature vectors.
    gamma_prime: Slope γ' > 0 at zero.

  Returns:
    Normalized matrices.
  """
  return _normalize(_elementwise.ASINHE, phi, gamma_prime=gamma_prime)


def sigme_pool(
  phi: Float[ArrayLike, "*batch N d"],
  eta_prime: ScalarLike,
  lam: ScalarLike = 1e-6,
  trace_normalize: bool = True,
) -> Float[Array, "*batch d d"]:
  """`sigme(cooccurrence(phi), eta_prime, lam, trace_normalize)` in one operator.

  Args:
    phi: Feature vectors.
    eta_prime: Parameter η' > 0, twice the slope at zero.
    lam: Constant λ >= 0 added to the trace.
    trace_normalize: Whether to divide the matrix by its trace.

  Returns:
    Matrices with entries from −1 to 1.
  """
  return _normalize(
    _elementwise.SIGME,
    phi,
    _checks.check_lam(lam) if trace_normalize else None,
    eta_prime=eta_prime,
  )


def _normalize(
  f: _elementwise.ElementwiseFunction,
  phi: ArrayLike,
  lam: ScalarLike | None = None,
  **parameter: ScalarLike,
) -> Array:
  """Return f(M), or f(M/(tr M + λ)) if λ is given, for one named parameter."""
  phi = _checks.as_features("phi", phi)
  x = _scaling.scale_features(phi, lam)
  scalar = _checks.as_positive(x.dtype, **parameter)
  return _pool(f, x, scalar).astype(phi.dtype)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _differentiable_pool(
  f: _elementwise.ElementwiseFunction,
  x: Float[Array, "*batch N d"],
  parameters: Array | tuple[Array, ...],
) -> Float[Array, "*batch d d"]:
  """Return f(XᵀX; parameters)."""
  return f.value(_linalg.self_product(x), parameters)


@_differentiable_pool.defjvp
def _differentiable_pool_jvp(f, primals, tangents):
  # M = XᵀX changes by T + Tᵀ with T = XᵀdX, and f(M) by f'(M) times that. For the
  # transpose, the cotangent of M is G ⊙ f'(M), and that of X is X times twice its
  # symmetric part. M is symmetric, so f'(M) factors out: X̄ = X((G + Gᵀ) ⊙ f'(M)), one
  # pass over G.
  (x, parameters), (x_dot, parameters_dot) = primals, tangents
  m = _linalg.self_product(x)
  out, change_by_parameters = jax.jvp(
    functools.partial(f.value, m), (parameters,), (parameters_dot,)
  )

  def slope(m, out):
    return f.slope(m, out, parameters)

  def change(x_dot):
    t = _linalg.matmul(x.mT, x_dot)
    return (t + t.mT) * slope(m, out)

  def pull_back(g):
    return _linalg.weighted_symmetric_product(x, g, slope, m, out)

  return out, change_by_parameters + _linalg.linear_map(
    change, pull_back, x_dot, out.shape
  )


@functools.partial(jax.jit, static_argnums=0)
def _pool(f, x, parameters):
  return _differentiable_pool(f, *_linalg.vary_together(x, parameters))
