"""Spectral Power Normalizations straight from features, exact and cheap.

Where N < d, as in every ResNet-50 setting of the paper, the N×N Gram matrix is
decomposed instead of the d×d co-occurrence matrix.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING
from typing import Any

import jax

from pnjax.ops import _checks
from pnjax.ops import _gram
from pnjax.ops import _linalg
from pnjax.ops import _products
from pnjax.ops import _routes
from pnjax.ops import _scaling
from pnjax.ops import _spectral
from pnjax.ops import _spectrum

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

  As in `spectral_gamma`, the derivative omits zero eigenvalues. With
  `route="matmul"`, four rounding units of the trace are added to eigenvalues: the
  result and its derivative are finite for any features, and accurate where the N×N Gram
  matrix (d×d if N >= d) has full rank, with eigenvalues far above these units.

  Args:
    phi: Feature vectors.
    power: Exponent γ > 0, usually at most 1.
    route: `"gram"` decomposes an N×N matrix, `"direct"` a d×d one; `"matmul"`, for
      γ = ½ as a Python number, needs only matrix products of the smaller size.
      `"auto"` uses `"matmul"` on GPUs and TPUs if possible, else the smaller
      decomposition.

  Returns:
    Normalized matrices.
  """
  products = _products.gamma_products(power)
  return _pool(_spectrum.GAMMA, phi, route, products, power=power)


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
    route: `"gram"` decomposes an N×N matrix, `"direct"` a d×d one; `"matmul"` or
      `"products"`, for a Python integer η, multiplies matrices of the smaller size.
      `"auto"` uses `"matmul"` if possible, else the smaller decomposition.

  Returns:
    Normalized matrices.
  """
  products = _products.maxexp_products(eta)
  if route == "products":
    route = "matmul"
  return _pool(_spectrum.MAXEXP, phi, route, products, _checks.check_lam(lam), eta=eta)


def spectral_sigme_pool(
  phi: Float[ArrayLike, "*batch N d"],
  eta_prime: ScalarLike,
  lam: ScalarLike = 1e-6,
  route: str = "auto",
  max_eta_prime: float | None = None,
) -> Float[Array, "*batch d d"]:
  """`spectral_sigme(cooccurrence(phi), eta_prime, lam)` without forming M.

  Args:
    phi: Feature vectors.
    eta_prime: Parameter η' > 0, twice the slope at zero.
    lam: Constant λ >= 0 added to the trace.
    route: `"gram"` decomposes an N×N matrix, `"direct"` a d×d one; `"matmul"` needs
      only matrix products of the smaller size. `"auto"` uses `"matmul"` on GPUs and
      TPUs, and elsewhere, or for a traced η' without a bound, the smaller
      decomposition.
    max_eta_prime: Upper bound on a traced η', which determines the number of products
      of `"matmul"`. Beyond the bound, its accuracy declines.

  Returns:
    Normalized matrices.
  """
  products = _products.sigme_products(eta_prime, max_eta_prime)
  return _pool(
    _spectrum.SIGME, phi, route, products, _checks.check_lam(lam), eta_prime=eta_prime
  )


def spectral_asinhe_pool(
  phi: Float[ArrayLike, "*batch N d"], gamma_prime: ScalarLike, route: str = "auto"
) -> Float[Array, "*batch d d"]:
  """`spectral_asinhe(cooccurrence(phi), gamma_prime)` without forming M.

  Args:
    phi: Feature vectors.
    gamma_prime: Slope γ' > 0 at zero.
    route: `"gram"` decomposes an N×N matrix, `"direct"` a d×d one; `"auto"` uses
      the smaller.

  Returns:
    Normalized matrices.
  """
  return _pool(_spectrum.ASINHE, phi, route, gamma_prime=gamma_prime)


def _pool(
  f: _spectrum.SpectralFunction,
  phi: ArrayLike,
  route: str,
  products: _products.Products | None = None,
  lam: ScalarLike | None = None,
  **parameter: ScalarLike,
) -> Array:
  """Return ψ(M), or ψ(M/(tr M + λ)) if λ is given, by the given route.

  Args:
    f: Function ψ.
    phi: Feature vectors.
    route: Route of the computation.
    products: Function ψ by products alone, if there is one.
    lam: Constant λ, or None if M keeps its trace.
    **parameter: Name and value of the parameter of ψ.
  """
  phi = _checks.as_features("phi", phi)
  x = _scaling.scale_features(phi, lam)
  scalar = _checks.as_positive(x.dtype, **parameter)
  _routes.check(route, products, parameter)
  decompose = functools.partial(_compiled, f, _routes.takes_gram(route, x))
  by_products = products.matrix_function if products else None
  compute = _routes.choose(route, products, decompose, by_products)
  return compute(x, scalar).astype(phi.dtype)


def matrix_function(
  f: _spectrum.SpectralFunction,
  by_gram: bool,
  x: Float[Array, "*batch N d"],
  parameters: Any,
) -> Float[Array, "*batch d d"]:
  """Return ψ(XᵀX) by a decomposition of the N×N Gram matrix, or of the d×d one."""
  x, parameters = _linalg.vary_together(x, parameters)
  if by_gram:
    return _gram.matrix_function(f, x, parameters)
  return _spectral.matrix_function(f, _linalg.self_product(x), parameters)


_compiled = jax.jit(matrix_function, static_argnums=(0, 1))
