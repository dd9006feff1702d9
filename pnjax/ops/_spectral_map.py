"""Any function of the eigenvalues of symmetric matrices."""

from __future__ import annotations

from collections.abc import Callable
import functools
from typing import TYPE_CHECKING
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pnjax.ops import _checks
from pnjax.ops import _linalg
from pnjax.ops import _routes
from pnjax.ops import _scaling
from pnjax.ops import _spectral
from pnjax.ops import _spectral_pool
from pnjax.ops import _spectrum

if TYPE_CHECKING:
  from jax import Array
  from jax.typing import ArrayLike
  from jaxtyping import Float

ScalarFunction = Callable[["Array"], "Array"]


def spectral_map(
  m: Float[ArrayLike, "*batch d d"], f: ScalarFunction, df: ScalarFunction | None = None
) -> Float[Array, "*batch d d"]:
  """Function f of the eigenvalues of a symmetric matrix, U f(Λ) Uᵀ.

  Unlike that of `jnp.linalg.eigh`, the derivative (in reverse mode) is exact and finite
  where eigenvalues are equal. Arrays that `f` closes over get gradients, too. Where the
  slope of `f` is infinite or NaN, as that of a root at zero, the derivative omits the
  block of eigenvalues that are equal there. Second derivatives, as of `jax.hessian`,
  are exact where eigenvalues differ, and NaN where two are equal.

  >>> spectral_map(jnp.diag(jnp.array([4.0, 9.0])), jnp.sqrt).tolist()
  [[2.0, 0.0], [0.0, 3.0]]

  Args:
    m: Symmetric matrices.
    f: Differentiable function from a scalar to a scalar.
    df: Derivative of `f`; computed by automatic differentiation if None.

  Returns:
    Matrices with the eigenvectors of `m`, and `f` of its eigenvalues.
  """
  m = _checks.as_square("m", m)
  x = _checks.upcast(m)
  function, constants = _as_spectral_function(f, df, x)
  compute = _routes.reverse_mode(_spectral.matrix_function)
  return compute(function, *_linalg.vary_together(x, constants)).astype(m.dtype)


def spectral_map_pool(
  phi: Float[ArrayLike, "*batch N d"],
  f: ScalarFunction,
  df: ScalarFunction | None = None,
  route: str = "auto",
) -> Float[Array, "*batch d d"]:
  """`spectral_map(cooccurrence(phi), f, df)` without forming M, for f(0) = 0.

  >>> phi = jnp.array([[2.0, 0.0]])
  >>> spectral_map_pool(phi, lambda x: x / (1 + x)).tolist()
  [[0.8, 0.0], [0.0, 0.0]]

  Args:
    phi: Feature vectors.
    f: Differentiable function from a scalar >= 0 to a scalar, with f(0) = 0.
    df: Derivative of `f`; computed by automatic differentiation if None.
    route: `"gram"` decomposes an N×N matrix, `"direct"` a d×d one; `"auto"` uses
      the smaller.

  Returns:
    Normalized matrices.
  """
  phi = _checks.as_features("phi", phi)
  _routes.check(route, None, {"f": f})
  x = _scaling.scale_features(phi)
  function, constants = _as_spectral_function(f, df, x)
  _check_zero(f, x.dtype)
  by_gram = _routes.takes_gram(route, x)
  compute = _routes.reverse_mode(_spectral_pool.matrix_function)
  return compute(function, by_gram, x, constants).astype(phi.dtype)


def _check_zero(f: ScalarFunction, dtype: jnp.dtype) -> None:
  """Raise ValueError if f(0) is known at trace time and is not 0."""
  with jax.ensure_compile_time_eval():
    value = f(jnp.zeros((), dtype))
  if not _checks.is_concrete(value):
    return
  if not np.all(np.abs(value) <= 4 * jnp.finfo(dtype).eps):
    raise ValueError(
      f"`f` is {value} at 0, expected 0, the value for features that never occur. "
      "Subtract f(0), or use `spectral_map(cooccurrence(phi), f)`."
    )


def _as_spectral_function(
  f: ScalarFunction, df: ScalarFunction | None, x: Array
) -> tuple[_spectrum.SpectralFunction, Any]:
  """Return `f` with its divided difference, and the arrays that both close over."""
  scalar = _linalg.zeros_of(x, ())  # Varies over devices as `x` does.
  value, value_constants = _elementwise("f", f, scalar)
  slope, slope_constants = _elementwise("df", jax.grad(f) if df is None else df, scalar)

  def divided_difference(x, y, constants):
    return _divided_difference(
      functools.partial(value, constants=constants[0]),
      functools.partial(slope, constants=constants[1]),
      x,
      y,
    )

  function = _spectrum.SpectralFunction(
    lambda x, constants: value(x, constants[0]), divided_difference
  )
  return function, (value_constants, slope_constants)


def _elementwise(
  name: str, f: ScalarFunction, scalar: Array
) -> tuple[Callable[..., Array], list[Array]]:
  """Return a scalar function as one of arrays and constants, and the constants."""
  if not callable(f):
    raise TypeError(f"`{name}` is {f!r}, expected a function of a scalar.")
  dtype = scalar.dtype
  out = jax.eval_shape(f, scalar)
  if not isinstance(out, jax.ShapeDtypeStruct) or out.shape or out.dtype != dtype:
    raise TypeError(
      f"`{name}` returns {out} for a scalar of {dtype}, expected a scalar of {dtype}."
    )
  converted, constants = jax.closure_convert(f, scalar)

  def apply(x, constants):
    return jax.vmap(lambda x: converted(x, *constants))(x.ravel()).reshape(x.shape)

  return apply, constants


def _divided_difference(
  value: ScalarFunction, slope: ScalarFunction, x: Array, y: Array
) -> Array:
  """Return (ψ(x) − ψ(y)) / (x − y), or ψ'(x) where x = y."""
  # The quotient loses digits where x and y are close. There, Gauss–Legendre quadrature
  # of ψ[x, y] = ∫₀¹ ψ'(y + t(x − y)) dt is accurate. Where they are far apart it is
  # not, and differs from the quotient by more than the quotient's rounding error.
  x, y = jnp.broadcast_arrays(x, y)
  tie = x == y
  gap = jnp.where(tie, 1, x - y)
  value_x, value_y = value(x), value(y)
  quotient = (value_x - value_y) / gap
  error = 8 * jnp.finfo(x.dtype).eps * (jnp.abs(value_x) + jnp.abs(value_y))
  integral = _mean_slope(slope, x, y)
  accurate = jnp.abs(integral - quotient) <= error / jnp.abs(gap)
  finite_slope = jnp.where(jnp.isfinite(integral), integral, 0)
  return jnp.where(tie, finite_slope, jnp.where(accurate, integral, quotient))


def _mean_slope(slope: ScalarFunction, x: Array, y: Array) -> Array:
  """Return the mean of ψ' between x and y, by quadrature."""
  num_nodes = 16 if jnp.finfo(x.dtype).bits == 64 else 8
  nodes, weights = np.polynomial.legendre.leggauss(num_nodes)
  total = jnp.zeros_like(x)
  for node, weight in zip(nodes.tolist(), weights.tolist(), strict=True):
    total = total + weight / 2 * slope(y + (1 + node) / 2 * (x - y))
  return total
