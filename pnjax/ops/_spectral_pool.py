"""Spectral Power Normalizations straight from features, exact and cheap.

The co-occurrence matrix M = XᵀX (X of shape `[N, d]`, scaled by 1/√N) has rank N
at most, and shares its nonzero eigenvalues with the Gram matrix K = XXᵀ of size
N×N. For ψ(0) = 0 and g(x) = ψ(x)/x, ψ(M) = Xᵀ g(K) X holds exactly. Where N < d, as
in every ResNet-50 setting of the paper, a decomposition of N×N replaces one of
d×d.
"""

import functools

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from pnjax.ops import _checks
from pnjax.ops import _linalg
from pnjax.ops import _scaling
from pnjax.ops import _spectral
from pnjax.ops import _spectrum
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
  whole = isinstance(eta, int) and not isinstance(eta, bool)
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
    return _gram_function(f, x, parameter)
  return _spectral.matrix_function(f, _linalg.self_product(x), parameter)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _gram_function(
  f: _spectrum.SpectralFunction, x: jax.Array, parameter: jax.Array
) -> jax.Array:
  """Returns ψ(XᵀX) = Xᵀ g(XXᵀ) X through the eigenvalues of XXᵀ."""
  return _gram_function_fwd(f, x, parameter)[0]


@functools.partial(jax.jit, static_argnums=0)
def _gram_function_fwd(f, x, parameter):
  # K = XXᵀ = V diag(w) Vᵀ. The rows of Y = VᵀX are orthogonal, of squared norm w,
  # and ψ(XᵀX) = Yᵀ diag(g(w)) Y, with g(w) = ψ[w, 0] > 0.
  _, v = jnp.linalg.eigh(matmul(x, x.mT))
  y = matmul(v.mT, x)
  # `eigh` errs by a unit of rounding of the largest eigenvalue. The norms of the
  # rows know the small ones better, and an exact zero as far less than a unit.
  w = jnp.sum(jnp.square(y), axis=-1)
  w = _spectral.zero_below(jnp.finfo(w.dtype).eps, w)
  g = f.divided_difference(w, jnp.zeros_like(w), parameter)
  out = _linalg.self_product(jnp.sqrt(g)[..., None] * y)
  return out, (v, w, y, parameter)


@functools.partial(jax.jit, static_argnums=0)
def _gram_function_bwd(f, residuals, g_out):
  # U = diag(w^-½) Y has the eigenvectors of M = XᵀX with w > 0 as rows. With the
  # symmetrised cotangent S let H = US and B = HUᵀ. Daleckii–Krein over all of
  # the eigenvectors of M, those with w = 0 included, is
  #   M̄ = Uᵀ(L ⊙ B)U + Uᵀ diag(g) H(I − UᵀU) + its transpose + (zero block),
  # since ψ[w, 0] = g(w). X̄ = 2X M̄, X = V diag(w^½) U, and UUᵀ = I, so the second
  # block meets U once and the transpose and the zero block vanish:
  #   X̄ = 2V diag(w^½) R,   R = (L ⊙ B)U + diag(g)(H − BU) = ((L − g1ᵀ) ⊙ B)U + gH.
  # It takes one product with the d×d cotangent; the others are of size N×N×d.
  v, w, y, parameter = residuals
  root = jnp.sqrt(jnp.where(w > 0, w, 1))
  u = jnp.where(w > 0, 1 / root, 0)[..., None] * y
  h = symmetric_product(u, g_out) / 2
  b = matmul(h, u.mT)
  w_i, w_j = w[..., :, None], w[..., None, :]
  g = f.divided_difference(w_i, jnp.zeros_like(w_i), parameter)
  difference = f.divided_difference(w_i, w_j, parameter) - g
  r = matmul(difference * b, u) + g * h
  x_bar = matmul(2 * v, jnp.where(w > 0, root, 0)[..., None] * r)
  return x_bar, _spectral.parameter_cotangent(f, w, b, parameter)


_gram_function.defvjp(_gram_function_fwd, _gram_function_bwd)


@functools.partial(jax.jit, static_argnums=1)
def _maxexp_by_products(x: jax.Array, eta: int) -> jax.Array:
  """Returns I − (I − XᵀX)^η with O(log η) products of the smaller size.

  With A = I − K, I − A^η = K Σₙ Aⁿ over n < η, so g(K) is the geometric sum: no
  decomposition, no division, no cancellation.
  """
  num_vectors, dim = x.shape[-2:]
  if num_vectors < dim:
    return _sandwich(x, _geometric_sum(matmul(x, x.mT), eta))
  m = _linalg.self_product(x)
  return matmul(m, _geometric_sum(m, eta))


def _geometric_sum(k: jax.Array, count: int) -> jax.Array:
  """Returns Σₙ (I − K)ⁿ over 0 <= n < count by doubling."""
  identity = jnp.eye(k.shape[-1], dtype=k.dtype)
  identity = jnp.broadcast_to(identity, k.shape)
  a = identity - k
  power, total = a, identity  # Aⁿ and the sum of n terms, n = 1.
  for bit in bin(count)[3:]:
    total = total + matmul(power, total)
    power = matmul(power, power)
    if bit == "1":
      total = total + power
      power = matmul(power, a)
  return total


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
