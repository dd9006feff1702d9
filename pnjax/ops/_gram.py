"""Functions ψ of XᵀX through the eigenvalues of the Gram matrix XXᵀ.

The co-occurrence matrix M = XᵀX (X of shape `[N, d]`, scaled by 1/√N) has rank at
most N and shares its nonzero eigenvalues with the N×N matrix K = XXᵀ. For ψ(0) = 0
and g(x) = ψ(x)/x, ψ(M) = Xᵀ g(K) X holds exactly.
"""

from __future__ import annotations

from collections.abc import Callable
import functools
from typing import TYPE_CHECKING
from typing import Any
from typing import NamedTuple

import jax
import jax.numpy as jnp

from pnjax.ops import _spectral
from pnjax.ops import _spectrum
from pnjax.ops._linalg import matmul
from pnjax.ops._linalg import symmetric_product
from pnjax.ops._linalg import vary_together

if TYPE_CHECKING:
  from jax import Array
  from jaxtyping import Float


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def matrix_function(
  f: _spectrum.SpectralFunction,
  x: Float[Array, "*batch N d"],
  parameters: Any,
) -> Float[Array, "*batch d d"]:
  """Return ψ(XᵀX)."""
  return _matrix_function_fwd(f, x, parameters)[0]


def _matrix_function_fwd(f, x, parameters):
  gram = _decompose(x)
  g = _quotients(f, gram.w, parameters)
  # Written so that the result is symmetric to the last digit.
  factor = jnp.sqrt(jnp.abs(g))[..., None] * gram.y
  out = matmul(factor.mT, jnp.sign(g)[..., None] * factor)
  return out, (gram, parameters)


def _matrix_function_bwd(f, residuals, g_out):
  gram, parameters = residuals
  # The only product with the d×d cotangent; the others cost N×N×d.
  return _pull_back(f, gram, parameters, lambda u: symmetric_product(u, g_out) / 2)


matrix_function.defvjp(_matrix_function_fwd, _matrix_function_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def quadratic_forms(
  f: _spectrum.SpectralFunction,
  x: Float[Array, "*batch N d"],
  directions: Float[Array, "d R"],
  parameters: Any,
) -> Float[Array, "*batch R"]:
  """Return pᵀ ψ(XᵀX) p for the columns p of `directions`."""
  return _quadratic_forms_fwd(f, x, directions, parameters)[0]


def _quadratic_forms_fwd(f, x, directions, parameters):
  # pᵀψ(XᵀX)p = (Yp)ᵀ diag(g) (Yp).
  gram = _decompose(x)
  z = matmul(gram.y, directions)
  g = _quotients(f, gram.w, parameters)
  out = jnp.sum(g[..., None] * jnp.square(z), axis=-2)
  return out, (gram, z, directions, parameters)


def _quadratic_forms_bwd(f, residuals, g_out):
  # With P the directions and C = diag(cotangent), the cotangent of ψ(M) is PCPᵀ,
  # which is never formed, and the cotangent of P is 2ψ(M)PC = 2Yᵀ diag(g) (YP)C.
  gram, z, directions, parameters = residuals
  c = g_out[..., None, :]
  x_bar, parameters_bar = _pull_back(
    f,
    gram,
    parameters,
    lambda u: matmul(matmul(u, directions) * c, directions.mT),
  )
  g = _quotients(f, gram.w, parameters)
  directions_bar = matmul(2 * gram.y.mT, g[..., None] * z * c)
  # The directions are shared by the whole batch.
  directions_bar = jnp.sum(directions_bar, axis=tuple(range(directions_bar.ndim - 2)))
  return x_bar, directions_bar, parameters_bar


quadratic_forms.defvjp(_quadratic_forms_fwd, _quadratic_forms_bwd)


@functools.partial(jax.jit, static_argnums=0)
def compiled_quadratic_forms(f, x, directions, parameters):
  """Return `quadratic_forms`, compiled."""
  return quadratic_forms(f, *vary_together(x, directions, parameters))


class _Gram(NamedTuple):
  """Decomposition K = XXᵀ = V diag(w) Vᵀ, with Y = VᵀX.

  The rows of Y are orthogonal with squared norms w, so ψ(XᵀX) = Yᵀ diag(g(w)) Y.
  """

  v: Float[Array, "*batch N N"]
  w: Float[Array, "*batch N"]
  y: Float[Array, "*batch N d"]


def _decompose(x: Array) -> _Gram:
  _, v = jnp.linalg.eigh(matmul(x, x.mT))
  y = matmul(v.mT, x)
  # The error of `eigh` is one rounding unit of the largest eigenvalue. The squared
  # norms of the rows of Y are more accurate for small eigenvalues, and far below one
  # unit for those that are exactly zero.
  w = jnp.sum(jnp.square(y), axis=-1)
  return _Gram(v, _spectral.zero_below(float(jnp.finfo(w.dtype).eps), w), y)


def _quotients(f, w, parameters):
  """Return g(w) = ψ(w)/w = ψ[w, 0]."""
  return f.divided_difference(w, jnp.zeros_like(w), parameters)


def _pull_back(
  f: _spectrum.SpectralFunction,
  gram: _Gram,
  parameters: Any,
  times_cotangent: Callable[[Array], Array],
) -> tuple[Array, Any]:
  """Return the cotangents of X and of the parameters.

  Args:
    f: Function ψ.
    gram: Decomposition of XXᵀ.
    parameters: Parameters of ψ.
    times_cotangent: Function that returns US for U of shape `[..., N, d]`, where S
      is the symmetrised cotangent of ψ(XᵀX).
  """
  # The rows of U = diag(w^-½) Y are the eigenvectors of M = XᵀX with w > 0. Let
  # H = US and B = HUᵀ. Daleckii–Krein over all eigenvectors of M, including those
  # with w = 0, gives
  #   M̄ = Uᵀ(L ⊙ B)U + Uᵀ diag(g) H(I − UᵀU) + its transpose + (zero block),
  # since ψ[w, 0] = g(w). With X̄ = 2X M̄, X = V diag(w^½) U and UUᵀ = I, the second
  # term keeps one factor U, and its transpose and the zero block vanish:
  #   X̄ = 2V diag(w^½) R,   R = (L ⊙ B)U + diag(g)(H − BU) = ((L − g1ᵀ) ⊙ B)U + gH.
  v, w, y = gram
  root = jnp.sqrt(jnp.where(w > 0, w, 1))
  u = jnp.where(w > 0, 1 / root, 0)[..., None] * y
  h = times_cotangent(u)
  b = matmul(h, u.mT)
  g = _quotients(f, w, parameters)[..., :, None]
  difference = f.divided_difference(w[..., :, None], w[..., None, :], parameters) - g
  r = matmul(difference * b, u) + g * h
  x_bar = matmul(2 * v, jnp.where(w > 0, root, 0)[..., None] * r)
  return x_bar, _spectral.parameter_cotangents(f, w, b, parameters)
