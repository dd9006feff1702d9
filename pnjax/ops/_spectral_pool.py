"""Spectral Power Normalizations straight from features, exact and cheap.

Where N < d, as in every ResNet-50 setting of the paper, a decomposition of the Gram
matrix, N×N, replaces one of the co-occurrence matrix, d×d.
"""

import functools

import jax
from jax.typing import ArrayLike

from pnjax.ops import _checks
from pnjax.ops import _gram
from pnjax.ops import _linalg
from pnjax.ops import _scaling
from pnjax.ops import _spectral
from pnjax.ops import _spectrum
from pnjax.ops._linalg import geometric_sum
from pnjax.ops._linalg import matmul
from pnjax.ops._linalg import symmetric_product


def spectral_gamma_pool(
  phi: ArrayLike, power: ArrayLike, route: str = "auto"
) -> jax.Array:
  """`spectral_gamma(cooccurrence(phi), power)` without forming M.

  The derivative leaves out eigenvalues of zero as in `spectral_gamma`.

  Args:
    phi: features `[..., N, d]`.
    power: γ > 0, usually up to 1.
    route: `"gram"` decomposes N×N, `"direct"` d×d; `"auto"` takes the smaller.

  Returns:
    Matrices `[..., d, d]`.
  """
  phi = _checks.as_features("phi", phi)
  x = _scaling.scale_features(phi)
  power = _checks.as_scalar("power", power, x.dtype, above=0)
  return _pool(_spectrum.GAMMA, x, power, route).astype(phi.dtype)


def spectral_maxexp_pool(
  phi: ArrayLike,
  eta: ArrayLike,
  lam: ArrayLike = 1e-6,
  route: str = "auto",
) -> jax.Array:
  """`spectral_maxexp(cooccurrence(phi), eta, lam)` without forming M.

  >>> import numpy as np
  >>> phi = np.eye(2, dtype=np.float32)  # Both eigenvalues of M/tr M are ½.
  >>> spectral_maxexp_pool(phi, eta=2, lam=0.0).tolist()
  [[0.75, 0.0], [0.0, 0.75]]

  Args:
    phi: features `[..., N, d]`.
    eta: η > 0, at least 1 in the paper. A Python integer needs matrix products
      only.
    lam: λ >= 0.
    route: `"gram"` decomposes N×N, `"direct"` d×d; `"products"`, for a Python
      integer η, multiplies matrices of the smaller size. `"auto"` takes
      `"products"` where it can, else the smaller decomposition.

  Returns:
    Matrices `[..., d, d]`.
  """
  phi = _checks.as_features("phi", phi)
  x = _scaling.trace_normalize_features(phi, lam)
  scalar = _checks.as_scalar("eta", eta, x.dtype, above=0)
  whole = _checks.is_whole(eta)
  if route == "products" and not whole:
    raise ValueError(
      f'`eta` is {eta!r}, expected a Python integer for route="products"; '
      'use route="auto" for a real or learned eta.'
    )
  if whole and route in ("auto", "products"):
    return _maxexp_by_products(x, eta).astype(phi.dtype)
  return _pool(_spectrum.MAXEXP, x, scalar, route).astype(phi.dtype)


def spectral_asinhe_pool(
  phi: ArrayLike, gamma_prime: ArrayLike, route: str = "auto"
) -> jax.Array:
  """`spectral_asinhe(cooccurrence(phi), gamma_prime)` without forming M.

  Args:
    phi: features `[..., N, d]`.
    gamma_prime: γ' > 0.
    route: `"gram"` decomposes N×N, `"direct"` d×d; `"auto"` takes the smaller.

  Returns:
    Matrices `[..., d, d]`.
  """
  phi = _checks.as_features("phi", phi)
  x = _scaling.scale_features(phi)
  gamma_prime = _checks.as_scalar("gamma_prime", gamma_prime, x.dtype, above=0)
  return _pool(_spectrum.ASINHE, x, gamma_prime, route).astype(phi.dtype)


def spectral_sigme_pool(
  phi: ArrayLike,
  eta_prime: ArrayLike,
  lam: ArrayLike = 1e-6,
  route: str = "auto",
) -> jax.Array:
  """`spectral_sigme(cooccurrence(phi), eta_prime, lam)` without forming M.

  Args:
    phi: features `[..., N, d]`.
    eta_prime: η' > 0.
    lam: λ >= 0.
    route: `"gram"` decomposes N×N, `"direct"` d×d; `"auto"` takes the smaller.

  Returns:
    Matrices `[..., d, d]`.
  """
  phi = _checks.as_features("phi", phi)
  x = _scaling.trace_normalize_features(phi, lam)
  eta_prime = _checks.as_scalar("eta_prime", eta_prime, x.dtype, above=0)
  return _pool(_spectrum.SIGME, x, eta_prime, route).astype(phi.dtype)


def _pool(
  f: _spectrum.SpectralFunction,
  x: jax.Array,
  parameter: jax.Array,
  route: str,
) -> jax.Array:
  """Returns ψ(XᵀX) along the named route."""
  if route not in ("auto", "gram", "direct"):
    raise ValueError(
      f"`route` is {route!r}, expected 'auto', 'gram' or 'direct' ('products' "
      "is a route of MaxExp alone)."
    )
  num_vectors, dim = x.shape[-2:]
  if route == "gram" or (route == "auto" and num_vectors < dim):
    return _gram.matrix_function(f, x, parameter)
  return _spectral.matrix_function(f, _linalg.self_product(x), parameter)


@functools.partial(jax.jit, static_argnums=1)
def _maxexp_by_products(x: jax.Array, eta: int) -> jax.Array:
  """Returns I − (I − XᵀX)^η with O(log η) products of the smaller size.

  With A = I − K, I − A^η = K Σₙ Aⁿ over n < η, so g(K) is the geometric sum: no
  decomposition, no division, no cancellation.
  """
  num_vectors, dim = x.shape[-2:]
  if num_vectors < dim:
    return _sandwich(x, geometric_sum(matmul(x, x.mT), eta))
  m = _linalg.self_product(x)
  return matmul(m, geometric_sum(m, eta))


@jax.custom_vjp
def _sandwich(x: jax.Array, p: jax.Array) -> jax.Array:
  """Returns XᵀPX for symmetric P."""
  return matmul(x.mT, matmul(p, x))


def _sandwich_fwd(x, p):
  return _sandwich(x, p), (x, p)


def _sandwich_bwd(residuals, g):
  # With the symmetrised cotangent S and H = XS: X̄ = 2PXS = 2PH and
  # P̄ = XSXᵀ = HXᵀ, one product with the d×d cotangent for both.
  x, p = residuals
  h = symmetric_product(x, g) / 2
  return matmul(2 * p, h), matmul(h, x.mT)


_sandwich.defvjp(_sandwich_fwd, _sandwich_bwd)
