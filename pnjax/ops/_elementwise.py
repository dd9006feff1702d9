"""Element-wise Power Normalizations: Table 1, Eqs. 11, 14, 15 and 16."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING
from typing import Any
from typing import NamedTuple

import jax
from jax import lax
import jax.numpy as jnp

from pnjax.ops import _checks
from pnjax.ops import _scaling

if TYPE_CHECKING:
  from jax import Array
  from jax.typing import ArrayLike
  from jaxtyping import Float
  from jaxtyping import ScalarLike


def gamma(
  m: Float[ArrayLike, "*shape"], power: ScalarLike, lam: ScalarLike = 1e-6
) -> Float[Array, "*shape"]:
  """Element-wise Gamma, (λ + M)^γ (Eq. 11).

  The slope at zero is γλ^(γ−1), large for the small λ that keeps rare features
  alive; `asinhe` is the well-behaved alternative. Entries with λ + M <= 0, which
  β-centering produces, have no real power and give 0 with derivative 0. From features,
  `gamma_pool` gives the same in less time than `gamma(cooccurrence(phi), ...)`.

  >>> gamma(jnp.array([0.0, 0.25, 1.0]), power=0.5, lam=0.0).tolist()
  [0.0, 0.5, 1.0]

  Args:
    m: Non-negative co-occurrence matrices or mean vectors.
    power: Exponent γ > 0, usually at most 1.
    lam: Constant λ >= 0 added to every entry.

  Returns:
    Normalized entries.
  """
  m = _checks.as_floating("m", m)
  x = _checks.upcast(m)
  power = _checks.as_scalar("power", power, x.dtype, above=0)
  lam = _checks.as_scalar("lam", lam, x.dtype, at_least=0)
  return positive_power(lam + x, power).astype(m.dtype)


def maxexp(
  m: Float[ArrayLike, "*batch d d"], eta: ScalarLike, lam: ScalarLike = 1e-6
) -> Float[Array, "*batch d d"]:
  """Element-wise MaxExp, 1 − (1 − M/(tr M + λ))^η (Eq. 14).

  This is the probability of at least one co-occurrence in η trials. It is meant for
  non-negative entries; use `sigme` after β-centering. From features, `maxexp_pool`
  gives the same in less time than `maxexp(cooccurrence(phi), ...)`.

  >>> maxexp(jnp.array([[0.5, 0.1], [0.1, 0.5]]), eta=10).tolist()
  [[0.999, 0.651], [0.651, 0.999]]

  Args:
    m: Non-negative co-occurrence matrices.
    eta: Exponent η > 0, at least 1 in the paper and about the number of vectors N.
    lam: Constant λ >= 0 added to the trace.

  Returns:
    Matrices with entries from 0 to 1.
  """
  m = _checks.as_square("m", m)
  x = _checks.upcast(m)
  eta = _checks.as_scalar("eta", eta, x.dtype, above=0)
  return maxexp_of_probability(_scaling.trace_normalize(x, lam), eta).astype(m.dtype)


def asinhe(
  m: Float[ArrayLike, "*shape"], gamma_prime: ScalarLike
) -> Float[Array, "*shape"]:
  """Element-wise AsinhE, arcsinh(γ'M) (Eq. 16).

  A surrogate for Gamma: odd, linear around zero, logarithmic for large entries. From
  features, `asinhe_pool` gives the same in less time than
  `asinhe(cooccurrence(phi), ...)`.

  >>> asinhe(jnp.array([-0.5, 0.0, 0.5]), gamma_prime=4.0).tolist()
  [-1.44, 0.0, 1.44]

  Args:
    m: Co-occurrence matrices or mean vectors, with entries of either sign.
    gamma_prime: Slope γ' > 0 at zero.

  Returns:
    Normalized entries.
  """
  m = _checks.as_floating("m", m)
  x = _checks.upcast(m)
  gamma_prime = _checks.as_scalar("gamma_prime", gamma_prime, x.dtype, above=0)
  return scaled_arcsinh(x, gamma_prime).astype(m.dtype)


def sigme(
  m: Float[ArrayLike, "*shape"],
  eta_prime: ScalarLike,
  lam: ScalarLike = 1e-6,
  trace_normalize: bool = True,
) -> Float[Array, "*shape"]:
  """Element-wise SigmE, 2/(1 + exp(−η'M/(tr M + λ))) − 1 (Eq. 15).

  A surrogate for MaxExp: odd, linear around zero, saturates at ±1. From features,
  `sigme_pool` gives the same in less time than `sigme(cooccurrence(phi), ...)`.

  >>> sigme(jnp.array([[0.5, -0.1], [-0.1, 0.5]]), eta_prime=10.0).tolist()
  [[0.99, -0.46], [-0.46, 0.99]]

  Args:
    m: Co-occurrence matrices `[..., d, d]` with entries of either sign; any shape
      if `trace_normalize` is False.
    eta_prime: Parameter η' > 0, twice the slope at zero.
    lam: Constant λ >= 0 added to the trace.
    trace_normalize: Whether to divide M by its trace; if False, the result is
      2/(1 + exp(−η'M)) − 1.

  Returns:
    Normalized entries from −1 to 1.
  """
  m = _checks.as_square("m", m) if trace_normalize else m
  m = _checks.as_floating("m", m)
  x = _checks.upcast(m)
  eta_prime = _checks.as_scalar("eta_prime", eta_prime, x.dtype, above=0)
  if trace_normalize:
    x = _scaling.trace_normalize(x, lam)
  return centered_sigmoid(x, eta_prime).astype(m.dtype)


def first_order_maxexp(
  mean: Float[ArrayLike, "*batch d"], eta: ScalarLike, lam: ScalarLike = 1e-6
) -> Float[Array, "*batch d"]:
  """MaxExp of a mean vector, 1 − (1 − μ/(Σμ + λ))^η (Remark 2).

  Args:
    mean: Means of non-negative feature vectors.
    eta: Exponent η > 0, about the number of vectors N.
    lam: Constant λ >= 0 added to the sum.

  Returns:
    Vectors with entries from 0 to 1.
  """
  mean = _checks.as_vectors("mean", mean)
  x = _checks.upcast(mean)
  eta = _checks.as_scalar("eta", eta, x.dtype, above=0)
  lam = _checks.as_scalar("lam", lam, x.dtype, at_least=0)
  p = _scaling.sum_normalize(x, lam)
  return maxexp_of_probability(p, eta).astype(mean.dtype)


def scaled_arcsinh(x: Array, gamma_prime: Array) -> Array:
  """Return arcsinh(γ'x)."""
  return jnp.arcsinh(gamma_prime * x)


def centered_sigmoid(x: Array, eta_prime: Array) -> Array:
  """Return 2/(1 + exp(−η'x)) − 1 = tanh(η'x/2), which cannot overflow."""
  return jnp.tanh(eta_prime / 2 * x)


def positive_power(x: Array, power: Array) -> Array:
  """Return x^γ, and 0 with derivative 0 where x <= 0."""
  nonpositive = x <= 0  # False for NaN, which must propagate.
  return jnp.where(nonpositive, 0, jnp.where(nonpositive, 1, x) ** power)


@jax.custom_jvp
def maxexp_of_probability(p: Array, eta: Array) -> Array:
  """Return 1 − (1 − p)^η, to full relative precision, and 1 where p >= 1."""
  return jnp.where(p >= 1, 1, -jnp.expm1(eta * log_complement(p)))


@maxexp_of_probability.defjvp
def _maxexp_of_probability_jvp(primals, tangents):
  # ∂/∂p = η(1 − p)^(η−1) and ∂/∂η = −(1 − p)^η log(1 − p), written out because the
  # chain rule through the logarithm gives 0·∞ at p = 1, the value of a feature map
  # with a single active channel. There, the slope of η < 1 is infinite, and that of the
  # largest p < 1 stands in for it.
  (p, eta), (p_dot, eta_dot) = primals, tangents
  log_q = log_complement(p)
  eta_slope = jnp.where(p >= 1, 0, -log_q * jnp.exp(eta * log_q))
  value = maxexp_of_probability(p, eta)
  return value, maxexp_slope(p, value, eta) * p_dot + eta_slope * eta_dot


def log_complement(p: Array) -> Array:
  """Return log(1 − p), and that of the largest p < 1 where p >= 1."""
  certain = p >= 1  # False for NaN, which must propagate.
  floor = jnp.log(jnp.finfo(p.dtype).epsneg)
  return jnp.where(certain, floor, jnp.log1p(-jnp.where(certain, 0, p)))


class ElementwiseFunction(NamedTuple):
  """A function of entries, with its slope.

  Attributes:
    value: `value(x, parameters)`.
    slope: `slope(x, value, parameters)`; with the value known, no power or hyperbolic
      tangent need be computed again.
  """

  value: Callable[[Array, Any], Array]
  slope: Callable[[Array, Array, Any], Array]


def _shifted_power(x, parameters):
  power, lam = parameters
  return positive_power(lam + x, power)


def _shifted_power_slope(x, value, parameters):
  power, lam = parameters
  base = lam + x
  return power * value / jnp.where(base <= 0, 1, base)  # The value there is 0.


def maxexp_slope(p, value, eta):
  """Return the derivative η(1 − p)^(η−1) of MaxExp, which is finite for any p."""
  del value  # Where it is close to 1, it says little about the slope.
  slope = eta * jnp.exp((eta - 1) * log_complement(p))
  return jnp.where((p >= 1) & (eta > 1), 0, slope)


def _scaled_arcsinh_slope(x, value, gamma_prime):
  del value
  return gamma_prime * lax.rsqrt(1 + jnp.square(gamma_prime * x))


def _centered_sigmoid_slope(x, value, eta_prime):
  del x
  return eta_prime / 2 * (1 + value) * (1 - value)


GAMMA = ElementwiseFunction(_shifted_power, _shifted_power_slope)
MAXEXP = ElementwiseFunction(maxexp_of_probability, maxexp_slope)
ASINHE = ElementwiseFunction(scaled_arcsinh, _scaled_arcsinh_slope)
SIGME = ElementwiseFunction(centered_sigmoid, _centered_sigmoid_slope)
