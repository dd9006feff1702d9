"""Scalar functions ψ of eigenvalues and their divided differences.

The derivative of a matrix function needs ψ[x, y] = (ψ(x) − ψ(y)) / (x − y), or ψ'(x)
where x = y. The quotient loses all digits for nearly equal eigenvalues, so every
function has a closed form without cancellation that turns the difference into `expm1`
or `arcsinh` of a small argument. Only exact equality takes a branch. All closed forms
are symmetric in x and y.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any
from typing import NamedTuple

from jax import lax
import jax.numpy as jnp

from pnjax.ops import _elementwise

if TYPE_CHECKING:
  from jax import Array


class SpectralFunction(NamedTuple):
  """A function ψ of eigenvalues with trainable parameters.

  Attributes:
    value: Function ψ(x; parameters).
    divided_difference: Divided difference ψ[x, y; parameters].
  """

  value: Callable[[Array, Any], Array]
  divided_difference: Callable[[Array, Array, Any], Array]


def _gamma_difference(x, y, power):
  # ψ[0, 0] is omitted, i.e. 0: the slope of x^γ at zero is infinite.
  high, low = jnp.maximum(x, y), jnp.minimum(x, y)
  difference = _power_difference(_safe_log(high), _safe_log(low), power)
  difference = jnp.where(low > 0, difference, _safe_power(high, power - 1))
  return jnp.where(high > 0, difference, 0)


def _maxexp_difference(x, y, eta):
  # With u = 1 − x and v = 1 − y this is (v^η − u^η) / (v − u).
  log_u = _elementwise.log_complement(x)
  log_v = _elementwise.log_complement(y)
  log_high = jnp.maximum(log_u, log_v)
  difference = _power_difference(log_high, jnp.minimum(log_u, log_v), eta)
  # v^(η−1) where u = 0, and the slope where both are.
  low, high = jnp.minimum(x, y), jnp.maximum(x, y)
  difference = jnp.where(high >= 1, jnp.exp((eta - 1) * log_high), difference)
  return jnp.where(low >= 1, _elementwise.maxexp_slope(low, None, eta), difference)


def _power_difference(log_high, log_low, power):
  # (h^p − l^p) / (h − l) = h^(p−1) (1 − (l/h)^p) / (1 − l/h), with r = log(l/h) <= 0.
  r = log_low - log_high
  ratio = _quotient(jnp.expm1(power * r), jnp.expm1(r), limit=power)
  return jnp.exp((power - 1) * log_high) * ratio


def _asinhe_difference(x, y, gamma_prime):
  # arcsinh a − arcsinh b = arcsinh(a√(1+b²) − b√(1+a²)) = arcsinh(z). If a and b have
  # the same sign, z = (a − b)q with q = (|a| + |b|) / (|a|√(1+b²) + |b|√(1+a²)), whose
  # terms are divided by max(|a|, |b|) to avoid overflow. If the signs differ, there is
  # no cancellation in the first place.
  a, b = gamma_prime * x, gamma_prime * y
  high = jnp.maximum(jnp.abs(a), jnp.abs(b))
  low = jnp.minimum(jnp.abs(a), jnp.abs(b))
  rho = _quotient(low, high, limit=1)
  q = (1 + rho) / (rho * jnp.hypot(1, high) + jnp.hypot(1, low))
  z = (high - low) * q
  same_sign = q * _quotient(jnp.arcsinh(z), z, limit=1)
  other_sign = _quotient(
    jnp.arcsinh(a) - jnp.arcsinh(b), gamma_prime * (x - y), limit=1
  )
  return gamma_prime * jnp.where((a >= 0) == (b >= 0), same_sign, other_sign)


def _sigme_difference(x, y, eta_prime):
  # tanh a − tanh b = 2 σ(2a) σ(−2b) (1 − exp(−2(a − b))) for a >= b. Subtract before
  # scaling: afterwards, a fused multiply-add may leave a rounding error between equal
  # numbers.
  high, low = jnp.maximum(x, y), jnp.minimum(x, y)
  z = eta_prime * (high - low)
  ratio = _quotient(-jnp.expm1(-z), z, limit=1)
  outer = lax.logistic(eta_prime * high) * lax.logistic(-eta_prime * low)
  return 2 * eta_prime * outer * ratio


def _shifted_log(x, lam):
  return jnp.log(jnp.maximum(x + lam, jnp.finfo(x.dtype).tiny))


def _log_difference(x, y, lam):
  # (log h − log l) / (h − l) = r / (h expm1(r)), with r = log(l/h).
  log_high = _shifted_log(jnp.maximum(x, y), lam)
  r = _shifted_log(jnp.minimum(x, y), lam) - log_high
  return _quotient(r, jnp.expm1(r), limit=1) * jnp.exp(-log_high)


def _quotient(numerator, denominator, limit):
  """Return numerator / denominator, or `limit` where the denominator is 0."""
  nonzero = denominator != 0
  return jnp.where(nonzero, numerator / jnp.where(nonzero, denominator, 1), limit)


def _safe_log(x):
  return jnp.log(jnp.where(x > 0, x, 1))


def _safe_power(x, power):
  return jnp.where(x > 0, x, 1) ** power


GAMMA = SpectralFunction(_elementwise.positive_power, _gamma_difference)
MAXEXP = SpectralFunction(_elementwise.maxexp_of_probability, _maxexp_difference)
ASINHE = SpectralFunction(_elementwise.scaled_arcsinh, _asinhe_difference)
SIGME = SpectralFunction(_elementwise.centered_sigmoid, _sigme_difference)
LOG = SpectralFunction(_shifted_log, _log_difference)
