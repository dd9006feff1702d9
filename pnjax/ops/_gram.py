"""Functions ψ of XᵀX through the eigenvalues of the Gram matrix XXᵀ.

The co-occurrence matrix M = XᵀX (X of shape `[N, d]`, scaled by 1/√N) has rank N
at most, and shares its nonzero eigenvalues with K = XXᵀ of size N×N. For ψ(0) = 0
and g(x) = ψ(x)/x, ψ(M) = Xᵀ g(K) X holds exactly.
"""

from collections.abc import Callable
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp

from pnjax.ops import _linalg
from pnjax.ops import _spectral
from pnjax.ops import _spectrum
from pnjax.ops._linalg import matmul
from pnjax.ops._linalg import symmetric_product


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def matrix_function(
  f: _spectrum.SpectralFunction, x: jax.Array, parameter: jax.Array
) -> jax.Array:
  """Returns ψ(XᵀX), `[..., d, d]`."""
  return _matrix_function_fwd(f, x, parameter)[0]


@functools.partial(jax.jit, static_argnums=0)
def _matrix_function_fwd(f, x, parameter):
  gram = _decompose(x)
  g = _quotients(f, gram.w, parameter)
  out = _linalg.self_product(jnp.sqrt(g)[..., None] * gram.y)
  return out, (gram, parameter)


@functools.partial(jax.jit, static_argnums=0)
def _matrix_function_bwd(f, residuals, g_out):
  gram, parameter = residuals
  # The one product with the d×d cotangent; the others are of size N×N×d.
  return _pull_back(f, gram, parameter, lambda u: symmetric_product(u, g_out) / 2)


matrix_function.defvjp(_matrix_function_fwd, _matrix_function_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def quadratic_forms(
  f: _spectrum.SpectralFunction,
  x: jax.Array,
  directions: jax.Array,
  parameter: jax.Array,
) -> jax.Array:
  """Returns pᵀ ψ(XᵀX) p for the columns p of `directions` `[d, R]`, `[..., R]`."""
  return _quadratic_forms_fwd(f, x, directions, parameter)[0]


@functools.partial(jax.jit, static_argnums=0)
def _quadratic_forms_fwd(f, x, directions, parameter):
  # pᵀψ(XᵀX)p = (Yp)ᵀ diag(g) (Yp).
  gram = _decompose(x)
  z = matmul(gram.y, directions)
  g = _quotients(f, gram.w, parameter)
  out = jnp.sum(g[..., None] * jnp.square(z), axis=-2)
  return out, (gram, z, directions, parameter)


@functools.partial(jax.jit, static_argnums=0)
def _quadratic_forms_bwd(f, residuals, g_out):
  # With P the directions and C = diag(cotangent), the cotangent of ψ(M) is PCPᵀ,
  # which is never formed, and that of P is 2ψ(M)PC = 2Yᵀ diag(g) (YP)C.
  gram, z, directions, parameter = residuals
  c = g_out[..., None, :]
  x_bar, parameter_bar = _pull_back(
    f,
    gram,
    parameter,
    lambda u: matmul(matmul(u, directions) * c, directions.mT),
  )
  g = _quotients(f, gram.w, parameter)
  directions_bar = matmul(2 * gram.y.mT, g[..., None] * z * c)
  # All of the batch has the same directions.
  directions_bar = jnp.sum(directions_bar, axis=tuple(range(directions_bar.ndim - 2)))
  return x_bar, directions_bar, parameter_bar


quadratic_forms.defvjp(_quadratic_forms_fwd, _quadratic_forms_bwd)


class _Gram(NamedTuple):
  """K = XXᵀ = V diag(w) Vᵀ, and Y = VᵀX.

  The rows of Y are orthogonal, of squared norm w, so that ψ(XᵀX) = Yᵀ diag(g(w)) Y.
  """

  v: jax.Array
  w: jax.Array
  y: jax.Array


def _decompose(x: jax.Array) -> _Gram:
  _, v = jnp.linalg.eigh(matmul(x, x.mT))
  y = matmul(v.mT, x)
  # `eigh` errs by a unit of rounding of the largest eigenvalue. The norms of the
  # rows know the small ones better, and an exact zero as far less than a unit.
  w = jnp.sum(jnp.square(y), axis=-1)
  return _Gram(v, _spectral.zero_below(jnp.finfo(w.dtype).eps, w), y)


def _quotients(f, w, parameter):
  """Returns g(w) = ψ(w)/w = ψ[w, 0], which is positive."""
  return f.divided_difference(w, jnp.zeros_like(w), parameter)


def _pull_back(
  f: _spectrum.SpectralFunction,
  gram: _Gram,
  parameter: jax.Array,
  times_cotangent: Callable[[jax.Array], jax.Array],
) -> tuple[jax.Array, jax.Array]:
  """Cotangents of X and of the parameter.

  Args:
    f: the function ψ.
    gram: decomposition of XXᵀ.
    parameter: the parameter of ψ.
    times_cotangent: returns US for U of shape `[..., N, d]`, with S the symmetrised
      cotangent of ψ(XᵀX).
  """
  # U = diag(w^-½) Y has the eigenvectors of M = XᵀX with w > 0 as rows. Let H = US
  # and B = HUᵀ. Daleckii–Krein over all of the eigenvectors of M, those with w = 0
  # included, is
  #   M̄ = Uᵀ(L ⊙ B)U + Uᵀ diag(g) H(I − UᵀU) + its transpose + (zero block),
  # since ψ[w, 0] = g(w). X̄ = 2X M̄, X = V diag(w^½) U, and UUᵀ = I, so the second
  # block meets U once and the transpose and the zero block vanish:
  #   X̄ = 2V diag(w^½) R,   R = (L ⊙ B)U + diag(g)(H − BU) = ((L − g1ᵀ) ⊙ B)U + gH.
  v, w, y = gram
  root = jnp.sqrt(jnp.where(w > 0, w, 1))
  u = jnp.where(w > 0, 1 / root, 0)[..., None] * y
  h = times_cotangent(u)
  b = matmul(h, u.mT)
  g = _quotients(f, w, parameter)[..., :, None]
  difference = f.divided_difference(w[..., :, None], w[..., None, :], parameter) - g
  r = matmul(difference * b, u) + g * h
  x_bar = matmul(2 * v, jnp.where(w > 0, root, 0)[..., None] * r)
  return x_bar, _spectral.parameter_cotangent(f, w, b, parameter)
