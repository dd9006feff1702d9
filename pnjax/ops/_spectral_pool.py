"""Spectral Power Normalizations straight from features, exact and cheap.

Where N < d, as in every ResNet-50 setting of the paper, the N×N Gram matrix is
decomposed instead of the d×d co-occurrence matrix.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import jax

from pnjax.ops import _checks
from pnjax.ops import _gram
from pnjax.ops import _linalg
from pnjax.ops import _scaling
from pnjax.ops import _spectral
from pnjax.ops import _spectrum
from pnjax.ops._linalg import geometric_sum
from pnjax.ops._linalg import matmul
from pnjax.ops._linalg import symmetric_product

if TYPE_CHECKING:
  from jax import Array
  from jax.typing import ArrayLike
  from jaxtyping import Float
  from jaxtyping import ScalarLike


def spectral_gamma_pool(
  phi: Float[ArrayLike, "*batch N d"], power: ScalarLike, route: str = "auto"
) -> Float[Array, "*batch d d"]:
  """`spectral_gamma(cooccurrence(phi), power)` without forming M.

  >>> import jax.numpy as jnp
  >>> spectral_gamma_pool(jnp.array([[2.0, 0.0]]), power=0.5).tolist()
  [[2.0, 0.0], [0.0, 0.0]]

  As in `spectral_gamma`, the derivative omits zero eigenvalues.

  Args:
    phi: Feature vectors.
    power: Exponent γ > 0, usually at most 1.
    route: `"gram"` decomposes an N×N matrix, `"direct"` a d×d one; `"auto"` takes
      the smaller.

  Returns:
    Normalized matrices.
  """
  return _pool(_spectrum.GAMMA, phi, route, power=power)


def spectral_maxexp_pool(
  phi: Float[ArrayLike, "*batch N d"],
  eta: ScalarLike,
  lam: ScalarLike = 1e-6,
  route: str = "auto",
) -> Float[Array, "*batch d d"]:
  """`spectral_maxexp(cooccurrence(phi), eta, lam)` without forming M.

  >>> import jax.numpy as jnp
  >>> phi = jnp.eye(2)  # Both eigenvalues of M/tr M are ½.
  >>> spectral_maxexp_pool(phi, eta=2, lam=0.0).tolist()
  [[0.75, 0.0], [0.0, 0.75]]

  Args:
    phi: Feature vectors.
    eta: Exponent η > 0, at least 1 in the paper. A Python integer needs only
      matrix products.
    lam: Constant λ >= 0 added to the trace.
    route: `"gram"` decomposes an N×N matrix, `"direct"` a d×d one; `"products"`
      multiplies matrices of the smaller size, for a Python integer η. `"auto"`
      takes `"products"` if possible, else the smaller decomposition.

  Returns:
    Normalized matrices.
  """
  whole = _checks.is_whole(eta)
  if route == "products" and not whole:
    raise ValueError(
      f'`eta` is {eta!r}, expected a Python integer for route="products"; '
      'use route="auto" for a real or traced eta.'
    )
  if not whole or route not in ("auto", "products"):
    return _pool(_spectrum.MAXEXP, phi, route, lam, eta=eta)
  phi = _checks.as_features("phi", phi)
  x = _scaling.scale_features(phi, lam)
  _checks.as_positive(x.dtype, eta=eta)
  return _maxexp_by_products(x, eta).astype(phi.dtype)


def spectral_sigme_pool(
  phi: Float[ArrayLike, "*batch N d"],
  eta_prime: ScalarLike,
  lam: ScalarLike = 1e-6,
  route: str = "auto",
) -> Float[Array, "*batch d d"]:
  """`spectral_sigme(cooccurrence(phi), eta_prime, lam)` without forming M.

  Args:
    phi: Feature vectors.
    eta_prime: Parameter η' > 0, twice the slope at zero.
    lam: Constant λ >= 0 added to the trace.
    route: `"gram"` decomposes an N×N matrix, `"direct"` a d×d one; `"auto"` takes
      the smaller.

  Returns:
    Normalized matrices.
  """
  return _pool(_spectrum.SIGME, phi, route, lam, eta_prime=eta_prime)


def spectral_asinhe_pool(
  phi: Float[ArrayLike, "*batch N d"], gamma_prime: ScalarLike, route: str = "auto"
) -> Float[Array, "*batch d d"]:
  """`spectral_asinhe(cooccurrence(phi), gamma_prime)` without forming M.

  Args:
    phi: Feature vectors.
    gamma_prime: Slope γ' > 0 at zero.
    route: `"gram"` decomposes an N×N matrix, `"direct"` a d×d one; `"auto"` takes
      the smaller.

  Returns:
    Normalized matrices.
  """
  return _pool(_spectrum.ASINHE, phi, route, gamma_prime=gamma_prime)


def _pool(
  f: _spectrum.SpectralFunction,
  phi: ArrayLike,
  route: str,
  lam: ScalarLike | None = None,
  **parameter: ScalarLike,
) -> Array:
  """Return ψ(M), or ψ(M/(tr M + λ)) if λ is given, by the given route."""
  phi = _checks.as_features("phi", phi)
  x = _scaling.scale_features(phi, lam)
  scalar = _checks.as_positive(x.dtype, **parameter)
  if route not in ("auto", "gram", "direct"):
    raise ValueError(
      f"`route` is {route!r}, expected 'auto', 'gram' or 'direct'; only MaxExp "
      "also has 'products'."
    )
  num_vectors, dim = x.shape[-2:]
  if route == "gram" or (route == "auto" and num_vectors < dim):
    return _gram.matrix_function(f, x, scalar).astype(phi.dtype)
  psi = _spectral.matrix_function(f, _linalg.self_product(x), scalar)
  return psi.astype(phi.dtype)


@functools.partial(jax.jit, static_argnums=1)
def _maxexp_by_products(x: Array, eta: int) -> Array:
  """Return I − (I − XᵀX)^η with O(log η) products of the smaller size.

  With A = I − K, I − A^η = K Σₙ Aⁿ over n < η, so g(K) is a geometric sum that needs
  no decomposition and no division, and has no cancellation.
  """
  num_vectors, dim = x.shape[-2:]
  if num_vectors < dim:
    return _sandwich(x, geometric_sum(matmul(x, x.mT), eta))
  m = _linalg.self_product(x)
  return matmul(m, geometric_sum(m, eta))


@jax.custom_vjp
def _sandwich(
  x: Float[Array, "*batch N d"], p: Float[Array, "*batch N N"]
) -> Float[Array, "*batch d d"]:
  """Return XᵀPX for symmetric P."""
  return matmul(x.mT, matmul(p, x))


def _sandwich_fwd(x, p):
  return _sandwich(x, p), (x, p)


def _sandwich_bwd(residuals, g):
  # With the symmetrised cotangent S and H = XS, X̄ = 2PXS = 2PH and P̄ = XSXᵀ = HXᵀ:
  # one product with the d×d cotangent for both.
  x, p = residuals
  h = symmetric_product(x, g) / 2
  return matmul(2 * p, h), matmul(h, x.mT)


_sandwich.defvjp(_sandwich_fwd, _sandwich_bwd)
