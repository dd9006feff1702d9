"""Quadratic forms pᵀΨp of pooled matrices Ψ that are never formed.

A classifier with low-rank weights Σᵣ sᵣpᵣpᵣᵀ needs nothing else from Ψ. The largest
matrices are N×N and N×d. Element-wise Power Normalizations have no such shortcut:
they need every entry of Ψ.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from pnjax.ops import _checks
from pnjax.ops import _gram
from pnjax.ops import _scaling
from pnjax.ops import _spectrum
from pnjax.ops._linalg import geometric_sum
from pnjax.ops._linalg import matmul

if TYPE_CHECKING:
  from jax import Array
  from jax.typing import ArrayLike
  from jaxtyping import Float
  from jaxtyping import ScalarLike


def cooccurrence_forms(
  phi: Float[ArrayLike, "*batch N d"], directions: Float[ArrayLike, "d R"]
) -> Float[Array, "*batch R"]:
  """Quadratic forms pᵀMp of M = `cooccurrence(phi)`, the means of (pᵀφₙ)².

  >>> cooccurrence_forms(jnp.array([[1.0, 0.0], [1.0, 1.0]]), jnp.eye(2)).tolist()
  [1.0, 0.5]

  Args:
    phi: Feature vectors.
    directions: Vectors p, one per column.

  Returns:
    One number per direction.
  """
  phi = _checks.as_features("phi", phi)
  x = _checks.upcast(phi)
  z = matmul(x, _as_directions(directions, x))
  return jnp.mean(jnp.square(z), axis=-2).astype(phi.dtype)


def spectral_gamma_forms(
  phi: Float[ArrayLike, "*batch N d"],
  directions: Float[ArrayLike, "d R"],
  power: ScalarLike,
) -> Float[Array, "*batch R"]:
  """Quadratic forms pᵀΨp of Ψ = `spectral_gamma_pool(phi, power)`.

  >>> spectral_gamma_forms(jnp.array([[2.0, 0.0]]), jnp.eye(2), power=0.5).tolist()
  [2.0, 0.0]

  Args:
    phi: Feature vectors.
    directions: Vectors p, one per column.
    power: Exponent γ > 0, usually at most 1.

  Returns:
    One number per direction.
  """
  return _forms(_spectrum.GAMMA, phi, directions, power=power)


def spectral_maxexp_forms(
  phi: Float[ArrayLike, "*batch N d"],
  directions: Float[ArrayLike, "d R"],
  eta: ScalarLike,
  lam: ScalarLike = 1e-6,
) -> Float[Array, "*batch R"]:
  """Quadratic forms pᵀΨp of Ψ = `spectral_maxexp_pool(phi, eta, lam)`.

  Args:
    phi: Feature vectors.
    directions: Vectors p, one per column.
    eta: Exponent η > 0, at least 1 in the paper. A Python integer needs only
      matrix products.
    lam: Constant λ >= 0 added to the trace.

  Returns:
    One number per direction.
  """
  if not _checks.is_whole(eta):
    return _forms(_spectrum.MAXEXP, phi, directions, lam, eta=eta)
  phi = _checks.as_features("phi", phi)
  x = _scaling.scale_features(phi, lam)
  _checks.as_positive(x.dtype, eta=eta)
  return _maxexp_by_products(x, _as_directions(directions, x), eta).astype(phi.dtype)


def spectral_sigme_forms(
  phi: Float[ArrayLike, "*batch N d"],
  directions: Float[ArrayLike, "d R"],
  eta_prime: ScalarLike,
  lam: ScalarLike = 1e-6,
) -> Float[Array, "*batch R"]:
  """Quadratic forms pᵀΨp of Ψ = `spectral_sigme_pool(phi, eta_prime, lam)`.

  Args:
    phi: Feature vectors.
    directions: Vectors p, one per column.
    eta_prime: Parameter η' > 0, twice the slope at zero.
    lam: Constant λ >= 0 added to the trace.

  Returns:
    One number per direction.
  """
  return _forms(_spectrum.SIGME, phi, directions, lam, eta_prime=eta_prime)


def spectral_asinhe_forms(
  phi: Float[ArrayLike, "*batch N d"],
  directions: Float[ArrayLike, "d R"],
  gamma_prime: ScalarLike,
) -> Float[Array, "*batch R"]:
  """Quadratic forms pᵀΨp of Ψ = `spectral_asinhe_pool(phi, gamma_prime)`.

  Args:
    phi: Feature vectors.
    directions: Vectors p, one per column.
    gamma_prime: Slope γ' > 0 at zero.

  Returns:
    One number per direction.
  """
  return _forms(_spectrum.ASINHE, phi, directions, gamma_prime=gamma_prime)


def _as_directions(directions: ArrayLike, x: Array) -> Float[Array, "d R"]:
  directions = _checks.as_floating("directions", directions)
  if directions.ndim != 2 or directions.shape[0] != x.shape[-1]:
    raise ValueError(
      f"`directions` has shape {directions.shape}, expected [d, R] = "
      f"[{x.shape[-1]}, R]: one column per direction, one row per channel of `phi`."
    )
  return directions.astype(x.dtype)


def _forms(
  f: _spectrum.SpectralFunction,
  phi: ArrayLike,
  directions: ArrayLike,
  lam: ScalarLike | None = None,
  **parameter: ScalarLike,
) -> Array:
  """Return pᵀψ(M)p, or pᵀψ(M/(tr M + λ))p if λ is given."""
  phi = _checks.as_features("phi", phi)
  x = _scaling.scale_features(phi, lam)
  scalar = _checks.as_positive(x.dtype, **parameter)
  directions = _as_directions(directions, x)
  return _gram.quadratic_forms(f, x, directions, scalar).astype(phi.dtype)


@functools.partial(jax.jit, static_argnums=2)
def _maxexp_by_products(x: Array, directions: Array, eta: int) -> Array:
  z = matmul(x, directions)
  return jnp.sum(z * matmul(geometric_sum(matmul(x, x.mT), eta), z), axis=-2)
