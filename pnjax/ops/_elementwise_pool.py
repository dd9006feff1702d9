"""Element-wise Power Normalizations straight from features.

The same matrices as `sigme(cooccurrence(phi), ...)` and its kin, in one operator:
with less memory and time, since the derivative passes over the cotangent once and
takes the trace from the features.
"""

from collections.abc import Callable
import functools

import jax
from jax.typing import ArrayLike

from pnjax.ops import _checks
from pnjax.ops import _elementwise
from pnjax.ops import _linalg
from pnjax.ops import _scaling


def gamma_pool(phi: ArrayLike, power: ArrayLike, lam: ArrayLike = 1e-6) -> jax.Array:
  """`gamma(cooccurrence(phi), power, lam)` in one operator.

  Args:
    phi: features `[..., N, d]`, not β-centered.
    power: γ > 0, usually up to 1.
    lam: λ >= 0.

  Returns:
    Matrices `[..., d, d]`.
  """
  phi = _checks.as_features("phi", phi)
  x = _scaling.scale_features(phi)
  power = _checks.as_scalar("power", power, x.dtype, above=0)
  lam = _checks.as_scalar("lam", lam, x.dtype, at_least=0)
  return _pool(_shifted_power, x, (power, lam)).astype(phi.dtype)


def maxexp_pool(phi: ArrayLike, eta: ArrayLike, lam: ArrayLike = 1e-6) -> jax.Array:
  """`maxexp(cooccurrence(phi), eta, lam)` in one operator.

  Args:
    phi: features `[..., N, d]`, not β-centered.
    eta: η > 0.
    lam: λ >= 0.

  Returns:
    Matrices `[..., d, d]` with entries from 0 to 1.
  """
  phi = _checks.as_features("phi", phi)
  x = _scaling.trace_normalize_features(phi, lam)
  eta = _checks.as_scalar("eta", eta, x.dtype, above=0)
  return _pool(_elementwise.maxexp_of_probability, x, eta).astype(phi.dtype)


def asinhe_pool(phi: ArrayLike, gamma_prime: ArrayLike) -> jax.Array:
  """`asinhe(cooccurrence(phi), gamma_prime)` in one operator.

  Args:
    phi: features `[..., N, d]`.
    gamma_prime: γ' > 0.

  Returns:
    Matrices `[..., d, d]`.
  """
  phi = _checks.as_features("phi", phi)
  x = _scaling.scale_features(phi)
  gamma_prime = _checks.as_scalar("gamma_prime", gamma_prime, x.dtype, above=0)
  return _pool(_elementwise.scaled_arcsinh, x, gamma_prime).astype(phi.dtype)


def sigme_pool(
  phi: ArrayLike,
  eta_prime: ArrayLike,
  lam: ArrayLike = 1e-6,
  trace_normalize: bool = True,
) -> jax.Array:
  """`sigme(cooccurrence(phi), eta_prime, lam, trace_normalize)` in one operator.

  Args:
    phi: features `[..., N, d]`.
    eta_prime: η' > 0.
    lam: λ >= 0; not used without the trace.
    trace_normalize: if False, the matrix is not divided by its trace.

  Returns:
    Matrices `[..., d, d]` with entries from −1 to 1.
  """
  phi = _checks.as_features("phi", phi)
  if trace_normalize:
    x = _scaling.trace_normalize_features(phi, lam)
  else:
    x = _scaling.scale_features(phi)
  eta_prime = _checks.as_scalar("eta_prime", eta_prime, x.dtype, above=0)
  return _pool(_elementwise.centered_sigmoid, x, eta_prime).astype(phi.dtype)


def _shifted_power(m, parameters):
  power, lam = parameters
  return _elementwise.positive_power(lam + m, power)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _pool(
  f: Callable[[jax.Array, jax.Array], jax.Array],
  x: jax.Array,
  parameters: jax.Array | tuple[jax.Array, ...],
) -> jax.Array:
  """Returns f(XᵀX; parameters), f element-wise."""
  return _pool_fwd(f, x, parameters)[0]


@functools.partial(jax.jit, static_argnums=0)
def _pool_fwd(f, x, parameters):
  m = _linalg.self_product(x)
  return f(m, parameters), (x, m, parameters)


@functools.partial(jax.jit, static_argnums=0)
def _pool_bwd(f, residuals, g):
  # The cotangent of M is G ⊙ f'(M), that of X is X times twice its symmetric
  # part. M is symmetric, so f'(M) can be taken out: X̄ = X((G + Gᵀ) ⊙ f'(M)).
  x, m, parameters = residuals
  x_bar = _linalg.weighted_symmetric_product(x, g, m, parameters, f)
  _, parameters_vjp = jax.vjp(functools.partial(f, m), parameters)
  return x_bar, *parameters_vjp(g)


_pool.defvjp(_pool_fwd, _pool_bwd)
