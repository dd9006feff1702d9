"""Matrix square roots and Lyapunov equations by Newton–Schulz iterations.

A few rounding units of the trace are added to eigenvalues, so that everything is finite
for any matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
import functools
import math
from typing import TYPE_CHECKING

import jax
from jax import lax
import jax.numpy as jnp

from pnjax.ops._linalg import identity_like
from pnjax.ops._linalg import matmul
from pnjax.ops._linalg import self_product

if TYPE_CHECKING:
  from jax import Array
  from jaxtyping import Float


def sqrt_of_self_product(x: Float[Array, "*batch N d"]) -> Float[Array, "*batch d d"]:
  """Return (XᵀX)^½ with products of the smaller size, N×N or d×d."""
  x, scale = _unit_trace(x)
  num_vectors, dim = x.shape[-2:]
  if num_vectors < dim:
    return scale * _sqrt_by_gram(x)
  m = self_product(x)
  return scale * _sqrt(_shift(m))


def quadratic_forms(
  x: Float[Array, "*batch N d"], directions: Float[Array, "d R"]
) -> Float[Array, "*batch R"]:
  """Return pᵀ(XᵀX)^½p for the columns p of `directions`."""
  x, scale = _unit_trace(x)
  return scale[..., 0] * _forms_by_gram(x, directions)


def _unit_trace(x: Array) -> tuple[Array, Array]:
  """Return X/c and the constant c for which tr XᵀX + the shift of `_shift` is 1.

  (XᵀX)^½ is homogeneous in X, so that the derivative may take c as constant. For X = 0,
  it is 0: nothing remains of the shift.
  """
  largest = jnp.max(jnp.abs(x), axis=(-2, -1), keepdims=True)
  zero = largest == 0
  largest = jnp.where(zero, 1, largest)
  total = jnp.sum(jnp.square(x / largest), axis=(-2, -1), keepdims=True)
  total = jnp.where(total == 0, 1, total)
  scale = largest * jnp.sqrt(total * (1 + _smallest(x.dtype)))
  scale = lax.stop_gradient(scale)
  return x / scale, jnp.where(zero, 0, scale)


def _shift(k: Array) -> Array:
  smallest = _smallest(k.dtype)
  return k + (smallest / (1 + smallest)) * identity_like(k)


def _smallest(dtype: jnp.dtype) -> float:
  """Return the number that is added to eigenvalues if the trace is 1.

  Rounding leaves eigenvalues of zero at about one unit of either sign.
  """
  return 4 * float(jnp.finfo(dtype).eps)


@jax.custom_jvp
def _sqrt_by_gram(x: Float[Array, "*batch N d"]) -> Float[Array, "*batch d d"]:
  """Return (XᵀX)^½ = XᵀK^(−½)X with K = XXᵀ of trace 1."""
  return matmul(x.mT, matmul(inverse_sqrt(_shift(self_product(x.mT))), x))


@_sqrt_by_gram.defjvp
def _sqrt_by_gram_jvp(primals, tangents):
  # Let S = K^½ and U = K^(−½)X, whose rows span those of X and are orthonormal in the
  # range of K. The derivative of Ψ = M^½ solves ΨdΨ + dΨΨ = dM. In the range of M, and
  # across it, this gives
  #   dΨ = Uᵀ(½Y − E)U + Uᵀ dX + its transpose,   E = dX Uᵀ,   SY + YS = SE + EᵀS.
  # In eigenvectors of K, Y is E times √w_i/(√w_i + √w_j), plus its transpose, so that
  # nothing grows where eigenvalues are small, unlike the derivative of K^(−½).
  (x,), (x_dot,) = primals, tangents
  u, y_e = _half_solution(x, x_dot)
  t = matmul(u.mT, x_dot + matmul(y_e, u))
  return matmul(x.mT, u), t + t.mT


@jax.custom_jvp
def _forms_by_gram(
  x: Float[Array, "*batch N d"], directions: Float[Array, "d R"]
) -> Float[Array, "*batch R"]:
  """Return pᵀ(XᵀX)^½p for the columns p of `directions`, where tr XᵀX is 1."""
  z = matmul(x, directions)
  return jnp.sum(z * matmul(inverse_sqrt(_shift(self_product(x.mT))), z), axis=-2)


@_forms_by_gram.defjvp
def _forms_by_gram_jvp(primals, tangents):
  # The forms pᵀdΨp of the derivative above, and 2pᵀΨdp = 2(Up)ᵀ(X dp).
  (x, directions), (x_dot, directions_dot) = primals, tangents
  u, y_e = _half_solution(x, x_dot)
  q = matmul(u, directions)
  change = matmul(x_dot, directions) + matmul(y_e, q) + matmul(x, directions_dot)
  return jnp.sum(matmul(x, directions) * q, axis=-2), 2 * jnp.sum(q * change, axis=-2)


def _half_solution(x: Array, x_dot: Array) -> tuple[Array, Array]:
  """Return U and ½Y − E of `_sqrt_by_gram_jvp`."""
  k = _shift(self_product(x.mT))
  s, p = _newton_schulz(k)
  u = matmul(p, x)
  e = matmul(x_dot, u.mT)
  se = matmul(s, e)
  return u, solve_lyapunov(s, se + se.mT) / 2 - e


@jax.custom_jvp
def _sqrt(a: Float[Array, "*batch n n"]) -> Float[Array, "*batch n n"]:
  """Return A^½ for eigenvalues from four rounding units to 1."""
  return _newton_schulz(a)[0]


@_sqrt.defjvp
def _sqrt_jvp(primals, tangents):
  # S = A^½ satisfies S² = A, so that S dS + dS S = dA.
  (a,), (a_dot,) = primals, tangents
  s = _sqrt(a)
  return s, solve_lyapunov(s, a_dot)


@jax.custom_jvp
def inverse_sqrt(a: Float[Array, "*batch n n"]) -> Float[Array, "*batch n n"]:
  """Return A^(−½) for eigenvalues from four rounding units to 1."""
  return _newton_schulz(a)[1]


@inverse_sqrt.defjvp
def _inverse_sqrt_jvp(primals, tangents):
  # P = A^(−½) and S = A^½ are inverses of each other. From P² = A⁻¹,
  #   P dP + dP P = −A⁻¹ dA A⁻¹ = −P² dA P²,
  # and after multiplication by S from both sides, S dP + dP S = −P dA P.
  (a,), (a_dot,) = primals, tangents
  p = inverse_sqrt(a)
  return p, solve_lyapunov(matmul(a, p), -matmul(p, matmul(a_dot, p)))


def _newton_schulz(a: Array) -> tuple[Array, Array]:
  """Return A^½ and A^(−½) by the coupled iteration, for eigenvalues as in `_sqrt`."""
  y, z = a, identity_like(a)
  for scale in _scales(a.dtype):
    w = (scale / 2) * (3 * identity_like(a) - scale**2 * matmul(z, y))
    y, z = matmul(y, w), matmul(w, z)
  return y, z


def solve_lyapunov(
  s: Float[Array, "*batch n n"],
  c: Float[Array, "*batch n n"],
  scales: Sequence[float] | None = None,
) -> Float[Array, "*batch n n"]:
  """Return X with SX + XS = C for symmetric C.

  Args:
    s: Symmetric matrices with eigenvalues from the square root of four rounding units
      to 1.
    c: Symmetric matrices, in which the solution is linear.
    scales: Scale of each iteration. If None, there are enough of them for a result
      that is exact up to rounding.

  References:
    Song, Sebe and Wang, Fast Differentiable Matrix Square Root, ICLR 2022.
  """
  return _lyapunov_iteration(s, c, tuple(scales or _scales(s.dtype)))


# The iterates B do not depend on C, and are computed again for the transpose.
@functools.partial(jax.checkpoint, static_argnums=2)
def _lyapunov_iteration(s: Array, c: Array, scales: tuple[float, ...]) -> Array:
  # The sign of the block matrix F = [[S, C], [0, −S]] is [[I, 2X], [0, −I]]. Its
  # Newton–Schulz iteration F ← F(3I − F²)/2 keeps the form [[B, C], [0, −B]], with
  # F² = [[B², BC − CB], [0, B²]].
  b = s
  for scale in scales:
    w = (scale / 2) * (3 * identity_like(b) - scale**2 * matmul(b, b))
    bc = matmul(b, c)
    c = matmul(c, w) - (scale**3 / 2) * matmul(b, bc - bc.mT)
    b = matmul(b, w)
  return c / 2


def _scales(dtype: jnp.dtype) -> list[float]:
  """Return the scale of each iteration, until singular values are 1 up to rounding.

  An iteration maps a singular value x to αx(3 − α²x²)/2. If all are at least l, the
  scale α² = 3/(1 + l + l²) makes the images of l and 1 equal and those between larger,
  which lifts the smallest ones 2.6-fold instead of 1.5-fold.

  References:
    Chen and Chow, A Stable Scaling of Newton-Schulz for Improving the Sign Function
    Computation of a Hermitian Matrix, Argonne National Laboratory, 2014.
  """
  unit, smallest = float(jnp.finfo(dtype).eps), _smallest(dtype)
  low = math.sqrt(smallest / (1 + smallest))
  scales = []
  while low < 1 - unit:
    scale = math.sqrt(3 / (1 + low + low**2))
    low = scale * low * (3 - (scale * low) ** 2) / 2
    scales.append(scale)
  return scales
