"""Element-wise Power Normalizations: Table 1, Eqs. 11, 14, 15 and 16."""

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from pnjax.ops import _checks
from pnjax.ops import _scaling


def gamma(m: ArrayLike, power: ArrayLike, lam: ArrayLike = 1e-6) -> jax.Array:
  """Gamma: (λ + M)^γ of every entry (Eq. 11).

  Its slope at zero is γλ^(γ−1): large for the small λ that keeps rare features
  alive. `asinhe` is the well-behaved alternative. Entries with λ + M <= 0, which
  β-centering makes, have no real power; they give 0 with derivative 0.

  >>> gamma(jnp.array([0.0, 0.25, 1.0]), power=0.5, lam=0.0).tolist()
  [0.0, 0.5, 1.0]

  Args:
    m: non-negative entries, of any shape: co-occurrence matrices or vectors.
    power: γ > 0, usually up to 1.
    lam: λ >= 0.

  Returns:
    An array of the shape of `m`.
  """
  m = _checks.as_floating("m", m)
  x = _checks.upcast(m)
  power = _checks.as_scalar("power", power, x.dtype, above=0)
  lam = _checks.as_scalar("lam", lam, x.dtype, at_least=0)
  return positive_power(lam + x, power).astype(m.dtype)


def maxexp(m: ArrayLike, eta: ArrayLike, lam: ArrayLike = 1e-6) -> jax.Array:
  """MaxExp: 1 − (1 − M/(tr M + λ))^η of every entry (Eq. 14).

  The probability of at least one co-occurrence in η trials. Meant for
  non-negative entries; use `sigme` after β-centering.

  >>> maxexp(jnp.array([[0.5, 0.1], [0.1, 0.5]]), eta=10).tolist()
  [[0.999, 0.651], [0.651, 0.999]]

  Args:
    m: co-occurrence matrices `[..., d, d]`.
    eta: η > 0, at least 1 in the paper and about the number of vectors N.
    lam: λ >= 0.

  Returns:
    Matrices `[..., d, d]` with entries from 0 to 1.
  """
  m = _checks.as_square("m", m)
  x = _checks.upcast(m)
  eta = _checks.as_scalar("eta", eta, x.dtype, above=0)
  return maxexp_of_probability(_scaling.trace_normalize(x, lam), eta).astype(m.dtype)


def asinhe(m: ArrayLike, gamma_prime: ArrayLike) -> jax.Array:
  """AsinhE: arcsinh(γ'M) of every entry (Eq. 16).

  Gamma's surrogate: logarithmic for large entries, linear around zero, odd.

  >>> asinhe(jnp.array([-0.5, 0.0, 0.5]), gamma_prime=4.0).tolist()
  [-1.44, 0.0, 1.44]

  Args:
    m: entries of either sign, of any shape: co-occurrence matrices or vectors.
    gamma_prime: γ' > 0.

  Returns:
    An array of the shape of `m`.
  """
  m = _checks.as_floating("m", m)
  x = _checks.upcast(m)
  gamma_prime = _checks.as_scalar("gamma_prime", gamma_prime, x.dtype, above=0)
  return scaled_arcsinh(x, gamma_prime).astype(m.dtype)


def sigme(
  m: ArrayLike,
  eta_prime: ArrayLike,
  lam: ArrayLike = 1e-6,
  trace_normalize: bool = True,
) -> jax.Array:
  """SigmE: 2/(1 + exp(−η'M/(tr M + λ))) − 1 of every entry (Eq. 15).

  MaxExp's surrogate: saturates at ±1, linear around zero, odd.

  >>> sigme(jnp.array([[0.5, -0.1], [-0.1, 0.5]]), eta_prime=10.0).tolist()
  [[0.99, -0.46], [-0.46, 0.99]]

  Args:
    m: co-occurrence matrices `[..., d, d]` with entries of either sign; an
      array of any shape if the trace is not used.
    eta_prime: η' > 0.
    lam: λ >= 0; not used without the trace.
    trace_normalize: if False, 2/(1 + exp(−η'M)) − 1.

  Returns:
    An array of the shape of `m` with entries from −1 to 1.
  """
  m = _checks.as_square("m", m) if trace_normalize else m
  m = _checks.as_floating("m", m)
  x = _checks.upcast(m)
  eta_prime = _checks.as_scalar("eta_prime", eta_prime, x.dtype, above=0)
  if trace_normalize:
    x = _scaling.trace_normalize(x, lam)
  return centered_sigmoid(x, eta_prime).astype(m.dtype)


def first_order_maxexp(
  mean: ArrayLike, eta: ArrayLike, lam: ArrayLike = 1e-6
) -> jax.Array:
  """MaxExp of a mean vector, 1 − (1 − μ/(Σμ + λ))^η (Remark 2).

  Args:
    mean: means of non-negative features, `[..., d]`.
    eta: η > 0, about the number of vectors N.
    lam: λ >= 0.

  Returns:
    Vectors `[..., d]` with entries from 0 to 1.
  """
  mean = _checks.as_floating("mean", mean)
  if mean.ndim < 1:
    raise ValueError("`mean` is a scalar, expected vectors [..., d].")
  x = _checks.upcast(mean)
  eta = _checks.as_scalar("eta", eta, x.dtype, above=0)
  lam = _checks.as_scalar("lam", lam, x.dtype, at_least=0)
  total = jnp.sum(x, axis=-1, keepdims=True) + lam
  p = _scaling.divide_by_total(x, total)
  return maxexp_of_probability(p, eta).astype(mean.dtype)


def scaled_arcsinh(x: jax.Array, gamma_prime: jax.Array) -> jax.Array:
  """Returns arcsinh(γ'x)."""
  return jnp.arcsinh(gamma_prime * x)


def centered_sigmoid(x: jax.Array, eta_prime: jax.Array) -> jax.Array:
  """Returns 2/(1 + exp(−η'x)) − 1 = tanh(η'x/2), which cannot overflow."""
  return jnp.tanh(eta_prime / 2 * x)


def positive_power(x: jax.Array, power: jax.Array) -> jax.Array:
  """Returns x^γ, and 0 with derivative 0 where x <= 0."""
  without = x <= 0  # Not so for NaN, which is to stay one.
  return jnp.where(without, 0, jnp.where(without, 1, x) ** power)


@jax.custom_jvp
def maxexp_of_probability(p: jax.Array, eta: jax.Array) -> jax.Array:
  """Returns 1 − (1 − p)^η for p <= 1, to full relative precision."""
  return -jnp.expm1(eta * log_complement(p))


@maxexp_of_probability.defjvp
def _maxexp_of_probability_jvp(primals, tangents):
  # ∂/∂p = η(1 − p)^(η−1) and ∂/∂η = −(1 − p)^η log(1 − p). Written out, since
  # the chain rule through the logarithm would be 0·∞ at p = 1, where a map with
  # a single active channel ends up.
  (p, eta), (p_dot, eta_dot) = primals, tangents
  log_q = log_complement(p)
  slope = eta * jnp.exp((eta - 1) * log_q)
  eta_slope = -log_q * jnp.exp(eta * log_q)
  return maxexp_of_probability(p, eta), slope * p_dot + eta_slope * eta_dot


def log_complement(p: jax.Array) -> jax.Array:
  """Returns log(1 − p); at p >= 1 the logarithm of the least normal number."""
  certain = p >= 1  # Not so for NaN, which is to stay one.
  floor = jnp.log(jnp.finfo(p.dtype).tiny)
  return jnp.where(certain, floor, jnp.log1p(-jnp.where(certain, 0, p)))
