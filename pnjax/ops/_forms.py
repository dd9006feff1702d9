"""Quadratic forms pᵀΨp of pooled matrices Ψ, without the matrices.

A classifier whose weights are of low rank, Σᵣ sᵣpᵣpᵣᵀ, needs nothing else of Ψ. Only
matrices of size N×N and N×d are made. Element-wise Power Normalizations have no
such form: they need every entry.
"""

import functools

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from pnjax.ops import _checks
from pnjax.ops import _gram
from pnjax.ops import _scaling
from pnjax.ops import _spectrum
from pnjax.ops._linalg import geometric_sum
from pnjax.ops._linalg import matmul


def cooccurrence_forms(phi: ArrayLike, directions: ArrayLike) -> jax.Array:
  """pᵀMp of M = `cooccurrence(phi)`, the mean of (pᵀφₙ)².

  >>> cooccurrence_forms(jnp.array([[1.0, 0.0], [1.0, 1.0]]), jnp.eye(2)).tolist()
  [1.0, 0.5]

  Args:
    phi: features `[..., N, d]`.
    directions: the vectors p as columns, `[d, R]`.

  Returns:
    One number for each direction, `[..., R]`.
  """
  phi = _checks.as_features("phi", phi)
  x = _checks.upcast(phi)
  z = matmul(x, _as_directions(directions, x))
  return jnp.mean(jnp.square(z), axis=-2).astype(phi.dtype)


def spectral_gamma_forms(
  phi: ArrayLike, directions: ArrayLike, power: ArrayLike
) -> jax.Array:
  """pᵀΨp of Ψ = `spectral_gamma_pool(phi, power)`.

  Args:
    phi: features `[..., N, d]`.
    directions: the vectors p as columns, `[d, R]`.
    power: γ > 0, usually up to 1.

  Returns:
    One number for each direction, `[..., R]`.
  """
  phi = _checks.as_features("phi", phi)
  x = _scaling.scale_features(phi)
  power = _checks.as_scalar("power", power, x.dtype, above=0)
  directions = _as_directions(directions, x)
  return _gram.quadratic_forms(_spectrum.GAMMA, x, directions, power).astype(phi.dtype)


def spectral_maxexp_forms(
  phi: ArrayLike, directions: ArrayLike, eta: ArrayLike, lam: ArrayLike = 1e-6
) -> jax.Array:
  """pᵀΨp of Ψ = `spectral_maxexp_pool(phi, eta, lam)`.

  Args:
    phi: features `[..., N, d]`.
    directions: the vectors p as columns, `[d, R]`.
    eta: η > 0, at least 1 in the paper. A Python integer needs matrix products
      only.
    lam: λ >= 0.

  Returns:
    One number for each direction, `[..., R]`.
  """
  phi = _checks.as_features("phi", phi)
  x = _scaling.trace_normalize_features(phi, lam)
  scalar = _checks.as_scalar("eta", eta, x.dtype, above=0)
  directions = _as_directions(directions, x)
  if _checks.is_whole(eta):
    return _maxexp_by_products(x, directions, eta).astype(phi.dtype)
  return _gram.quadratic_forms(_spectrum.MAXEXP, x, directions, scalar).astype(
    phi.dtype
  )


def spectral_asinhe_forms(
  phi: ArrayLike, directions: ArrayLike, gamma_prime: ArrayLike
) -> jax.Array:
  """pᵀΨp of Ψ = `spectral_asinhe_pool(phi, gamma_prime)`.

  Args:
    phi: features `[..., N, d]`.
    directions: the vectors p as columns, `[d, R]`.
    gamma_prime: γ' > 0.

  Returns:
    One number for each direction, `[..., R]`.
  """
  phi = _checks.as_features("phi", phi)
  x = _scaling.scale_features(phi)
  gamma_prime = _checks.as_scalar("gamma_prime", gamma_prime, x.dtype, above=0)
  directions = _as_directions(directions, x)
  return _gram.quadratic_forms(_spectrum.ASINHE, x, directions, gamma_prime).astype(
    phi.dtype
  )


def spectral_sigme_forms(
  phi: ArrayLike, directions: ArrayLike, eta_prime: ArrayLike, lam: ArrayLike = 1e-6
) -> jax.Array:
  """pᵀΨp of Ψ = `spectral_sigme_pool(phi, eta_prime, lam)`.

  Args:
    phi: features `[..., N, d]`.
    directions: the vectors p as columns, `[d, R]`.
    eta_prime: η' > 0.
    lam: λ >= 0.

  Returns:
    One number for each direction, `[..., R]`.
  """
  phi = _checks.as_features("phi", phi)
  x = _scaling.trace_normalize_features(phi, lam)
  eta_prime = _checks.as_scalar("eta_prime", eta_prime, x.dtype, above=0)
  directions = _as_directions(directions, x)
  return _gram.quadratic_forms(_spectrum.SIGME, x, directions, eta_prime).astype(
    phi.dtype
  )


def _as_directions(directions: ArrayLike, x: jax.Array) -> jax.Array:
  directions = _checks.as_floating("directions", directions)
  if directions.ndim != 2 or directions.shape[0] != x.shape[-1]:
    raise ValueError(
      f"`directions` has shape {directions.shape}, expected [d, R] = "
      f"[{x.shape[-1]}, R]: one column of as many entries as `phi` has channels for "
      "each direction."
    )
  return directions.astype(x.dtype)


@functools.partial(jax.jit, static_argnums=2)
def _maxexp_by_products(x: jax.Array, directions: jax.Array, eta: int) -> jax.Array:
  z = matmul(x, directions)
  return jnp.sum(z * matmul(geometric_sum(matmul(x, x.mT), eta), z), axis=-2)
