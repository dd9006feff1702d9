"""Spectral functions of XᵀX by matrix products alone.

Decompositions of many small matrices are slow on GPUs and TPUs, where products cost
next to nothing. Nothing here is divided by an eigenvalue or by a difference of
eigenvalues, so zero and repeated eigenvalues need no care, and ordinary
differentiation works, forward and reverse, to any order.

As in `_gram`, ψ(XᵀX) = Xᵀ g(K) X with K = XXᵀ and g(x) = ψ(x)/x; if X has more rows
than columns, ψ(XᵀX) = g(M) Xᵀ X with M = XᵀX is cheaper.
"""

from __future__ import annotations

from collections.abc import Callable
import dataclasses
import functools
import math
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from pnjax.ops import _checks
from pnjax.ops import _matrix_sqrt
from pnjax.ops._linalg import identity_like
from pnjax.ops._linalg import matmul
from pnjax.ops._linalg import self_product

if TYPE_CHECKING:
  from jax import Array
  from jaxtyping import Float
  from jaxtyping import ScalarLike

# Doublings of a matrix in single precision, each of which doubles a rounding error.
_MAX_SINGLE_DOUBLINGS = 8


@dataclasses.dataclass(frozen=True)
class Products:
  """A spectral function ψ by a number of products that is fixed at trace time.

  Attributes:
    pool: `pool(x, parameter, count)`, ψ(XᵀX).
    forms: `forms(x, directions, parameter, count)`, pᵀ ψ(XᵀX) p for the columns p of
      `directions`.
    count: What determines the number of products.
    fastest_on_cpu: Whether they are faster than a decomposition on a CPU, too.
  """

  pool: Callable[[Array, Array, int], Array]
  forms: Callable[[Array, Array, Array, int], Array]
  count: int = 0
  fastest_on_cpu: bool = False

  @functools.partial(jax.jit, static_argnums=0)
  def matrix_function(
    self, x: Float[Array, "*batch N d"], parameter: Float[Array, ""]
  ) -> Float[Array, "*batch d d"]:
    """Return ψ(XᵀX)."""
    return self.pool(x, parameter, self.count)

  @functools.partial(jax.jit, static_argnums=0)
  def quadratic_forms(
    self,
    x: Float[Array, "*batch N d"],
    directions: Float[Array, "d R"],
    parameter: Float[Array, ""],
  ) -> Float[Array, "*batch R"]:
    """Return pᵀ ψ(XᵀX) p for the columns p of `directions`."""
    return self.forms(x, directions, parameter, self.count)


def gamma_products(power: ScalarLike) -> Products | None:
  """Return Gamma with γ = ½, and None for any other γ."""
  _checks.check_number("power", power, above=0)
  if _checks.is_concrete(power) and power == 0.5:
    return Products(_gamma_pool, _gamma_forms)
  return None


def maxexp_products(eta: ScalarLike) -> Products | None:
  """Return MaxExp with a Python integer η, and None for any other η."""
  if _checks.is_whole(eta):
    return Products(_maxexp_pool, _maxexp_forms, eta, fastest_on_cpu=True)
  return None


def sigme_products(
  eta_prime: ScalarLike, max_eta_prime: float | None
) -> Products | None:
  """Return SigmE, and None for a traced η' without an upper bound."""
  bound = max_eta_prime
  if bound is not None:
    _checks.check_number("max_eta_prime", bound, above=0)
  _checks.check_number("eta_prime", eta_prime, above=0)
  if _checks.is_concrete(eta_prime):
    value = np.asarray(eta_prime).item()
    bound = value if bound is None else bound
    if value > bound:
      raise ValueError(
        f"`max_eta_prime` is {bound}, expected at least `eta_prime`, {value}."
      )
  if bound is None:
    return None
  return Products(_sigme_pool, _sigme_forms, math.ceil(math.log2(max(1.0, bound))))


def _gamma_pool(x, power, count):
  del power, count
  return _matrix_sqrt.sqrt_of_self_product(x)


def _gamma_forms(x, directions, power, count):
  del power, count
  return _matrix_sqrt.quadratic_forms(x, directions)


def _maxexp_pool(x, eta, count):
  del eta  # The count, known at trace time.
  num_vectors, dim = x.shape[-2:]
  if num_vectors < dim:
    return _sandwich(x, geometric_sum(self_product(x.mT), count))
  m = self_product(x)
  return matmul(m, geometric_sum(m, count))


def _maxexp_forms(x, directions, eta, count):
  del eta
  z = matmul(x, directions)
  g = geometric_sum(self_product(x.mT), count)
  return jnp.sum(z * matmul(g, z), axis=-2)


def geometric_sum(
  k: Float[Array, "*batch n n"], count: int
) -> Float[Array, "*batch n n"]:
  """Return g(K) for MaxExp: Σₙ (I − K)ⁿ over 0 <= n < count, by doubling.

  With A = I − K, I − A^η = K Σₙ Aⁿ over n < η: no division and no cancellation.
  """
  identity = identity_like(k)
  a = identity - k
  power, total = a, identity  # Aⁿ and the sum of n terms, n = 1.
  for bit in bin(count)[3:]:
    total = total + matmul(power, total)
    power = matmul(power, power)
    if bit == "1":
      total = total + power
      power = matmul(power, a)
  return total


@jax.custom_jvp
def _sandwich(
  x: Float[Array, "*batch N d"], p: Float[Array, "*batch N N"]
) -> Float[Array, "*batch d d"]:
  """Return XᵀPX for symmetric P."""
  return matmul(x.mT, matmul(p, x))


@_sandwich.defjvp
def _sandwich_jvp(primals, tangents):
  # d(XᵀPX) = T + Tᵀ with T = Xᵀ(P dX + ½ dP X), since P is symmetric: one product with
  # a d×d result where the product rule needs two. So has the transpose: with
  # H = X(G + Gᵀ), X̄ = PH and P̄ = HXᵀ/2.
  (x, p), (x_dot, p_dot) = primals, tangents
  t = matmul(x.mT, matmul(p, x_dot) + matmul(p_dot, x) / 2)
  return _sandwich(x, p), t + t.mT


def _sigme_pool(x, eta_prime, doublings):
  num_vectors, dim = x.shape[-2:]
  y = x if num_vectors < dim else x.mT
  quotient = _sigme_quotient_times(self_product(y.mT), y, eta_prime, doublings)
  if num_vectors < dim:
    return matmul(x.mT, quotient)
  return matmul(quotient, x)


def _sigme_forms(x, directions, eta_prime, doublings):
  z = matmul(x, directions)
  quotient = _sigme_quotient_times(self_product(x.mT), z, eta_prime, doublings)
  return jnp.sum(z * quotient, axis=-2)


# The intermediate matrices are computed again for the derivative: kept, they would take
# more memory than the pooled matrix itself.
@functools.partial(jax.checkpoint, static_argnums=3)
def _sigme_quotient_times(
  k: Float[Array, "*batch n n"],
  y: Float[Array, "*batch n m"],
  eta_prime: Float[Array, ""],
  doublings: int,
) -> Float[Array, "*batch n m"]:
  """Return g(K)Y for SigmE, where the null space of K is orthogonal to Y."""
  # With Z = −η'K, E = exp Z and φ₁(Z) = (E − I)/Z,
  #   tanh(η'K/2) = (I − E)(I + E)⁻¹ = η'K φ₁(Z)(I + E)⁻¹,
  # so that g(K) = η' φ₁(Z)(I + E)⁻¹. A Taylor series gives φ₁ of Z/2ˢ, whose
  # eigenvalues are at most 1 in magnitude, and E = I + Zφ₁. Then, s times,
  #   φ₁(2Z) = (I + E)φ₁(Z)/2,   exp 2Z = E².
  # In the null space of K, φ₁ stays 1 while it falls by half elsewhere, so that its
  # rounding errors there would soon drown the rest. Y has no part in the null space:
  # in single precision, later doublings are those of φ₁Y.
  single = jnp.finfo(k.dtype).bits < 64
  unit = float(jnp.finfo(k.dtype).eps)
  identity = identity_like(k)
  if 2.0**doublings * unit > 0.1:
    k = k + unit * identity  # Rounding leaves eigenvalues below 0, where E explodes.
  z = -(eta_prime / 2.0**doublings) * k
  degree = 8 if single else 16
  phi = identity / math.factorial(degree + 1)
  for j in range(degree, 0, -1):
    phi = matmul(z, phi) + identity / math.factorial(j)
  e = identity + matmul(z, phi)
  early = min(doublings, _MAX_SINGLE_DOUBLINGS) if single else doublings
  for _ in range(early):
    phi, e = (phi + matmul(e, phi)) / 2, matmul(e, e)
  phi_y = matmul(phi, y)
  for _ in range(doublings - early):
    phi_y, e = (phi_y + matmul(e, phi_y)) / 2, matmul(e, e)
  inverse = _inverse_of_one_to_two(identity + e, iterations=3 if single else 4)
  return eta_prime * matmul(inverse, phi_y)


def _inverse_of_one_to_two(a: Array, iterations: int) -> Array:
  """Return A⁻¹ by Newton–Schulz iterations, for eigenvalues from 1 to 2.

  The start makes the residual I − AX a Chebyshev polynomial of A, at most 1/17; each
  iteration squares it.
  """
  x = (24 * identity_like(a) - 8 * a) / 17
  for _ in range(iterations):
    x = 2 * x - matmul(x, matmul(a, x))
  return x
