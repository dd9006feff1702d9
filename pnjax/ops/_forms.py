"""Quadratic forms pᵀΨp of pooled matrices Ψ that are never formed.

A classifier with low-rank weights Σᵣ sᵣpᵣpᵣᵀ needs nothing else from Ψ. The largest
matrices are N×N and N×d. Element-wise Power Normalizations have no such shortcut:
they need every entry of Ψ.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import jax.numpy as jnp

from pnjax.ops import _checks
from pnjax.ops import _gram
from pnjax.ops import _products
from pnjax.ops import _routes
from pnjax.ops import _scaling
from pnjax.ops import _spectrum
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
  route: str = "auto",
) -> Float[Array, "*batch R"]:
  """Quadratic forms pᵀΨp of Ψ = `spectral_gamma_pool(phi, power)`.

  >>> spectral_gamma_forms(jnp.array([[2.0, 0.0]]), jnp.eye(2), power=0.5).tolist()
  [2.0, 0.0]

  Args:
    phi: Feature vectors.
    directions: Vectors p, one per column.
    power: Exponent γ > 0, usually at most 1.
    route: `"gram"`, `"matmul"` or `"auto"`, as in `spectral_gamma_pool`.

  Returns:
    One number per direction.
  """
  products = _products.gamma_products(power)
  return _forms(_spectrum.GAMMA, phi, directions, route, products, power=power)


def spectral_maxexp_forms(
  phi: Float[ArrayLike, "*batch N d"],
  directions: Float[ArrayLike, "d R"],
  eta: ScalarLike,
  lam: ScalarLike = 1e-6,
  route: str = "auto",
) -> Float[Array, "*batch R"]:
  """Quadratic forms pᵀΨp of Ψ = `spectral_maxexp_pool(phi, eta, lam)`.

  Args:
    phi: Feature vectors.
    directions: Vectors p, one per column.
    eta: Exponent η > 0, at least 1 in the paper. A Python integer needs only
      matrix products.
    lam: Constant λ >= 0 added to the trace.
    route: `"gram"`, `"matmul"` or `"auto"`, as in `spectral_maxexp_pool`.

  Returns:
    One number per direction.
  """
  products = _products.maxexp_products(eta)
  if route == "products":
    route = "matmul"
  return _forms(
    _spectrum.MAXEXP, phi, directions, route, products, _checks.check_lam(lam), eta=eta
  )


def spectral_sigme_forms(
  phi: Float[ArrayLike, "*batch N d"],
  directions: Float[ArrayLike, "d R"],
  eta_prime: ScalarLike,
  lam: ScalarLike = 1e-6,
  route: str = "auto",
  max_eta_prime: float | None = None,
) -> Float[Array, "*batch R"]:
  """Quadratic forms pᵀΨp of Ψ = `spectral_sigme_pool(phi, eta_prime, lam)`.

  Args:
    phi: Feature vectors.
    directions: Vectors p, one per column.
    eta_prime: Parameter η' > 0, twice the slope at zero.
    lam: Constant λ >= 0 added to the trace.
    route: `"gram"`, `"matmul"` or `"auto"`, as in `spectral_sigme_pool`.
    max_eta_prime: Upper bound on a traced η', as in `spectral_sigme_pool`.

  Returns:
    One number per direction.
  """
  products = _products.sigme_products(eta_prime, max_eta_prime)
  return _forms(
    _spectrum.SIGME,
    phi,
    directions,
    route,
    products,
    _checks.check_lam(lam),
    eta_prime=eta_prime,
  )


def spectral_asinhe_forms(
  phi: Float[ArrayLike, "*batch N d"],
  directions: Float[ArrayLike, "d R"],
  gamma_prime: ScalarLike,
  route: str = "auto",
) -> Float[Array, "*batch R"]:
  """Quadratic forms pᵀΨp of Ψ = `spectral_asinhe_pool(phi, gamma_prime)`.

  Args:
    phi: Feature vectors.
    directions: Vectors p, one per column.
    gamma_prime: Slope γ' > 0 at zero.
    route: `"gram"` or `"auto"`, which are the same here.

  Returns:
    One number per direction.
  """
  return _forms(_spectrum.ASINHE, phi, directions, route, gamma_prime=gamma_prime)


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
  route: str,
  products: _products.Products | None = None,
  lam: ScalarLike | None = None,
  **parameter: ScalarLike,
) -> Array:
  """Return pᵀψ(M)p, or pᵀψ(M/(tr M + λ))p if λ is given."""
  phi = _checks.as_features("phi", phi)
  x = _scaling.scale_features(phi, lam)
  scalar = _checks.as_positive(x.dtype, **parameter)
  _routes.check(route, products, parameter, known=("auto", "gram", "matmul"))
  compute = _routes.choose(
    route,
    products,
    functools.partial(_gram.compiled_quadratic_forms, f),
    products.quadratic_forms if products else None,
  )
  return compute(x, _as_directions(directions, x), scalar).astype(phi.dtype)
