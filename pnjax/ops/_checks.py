"""Argument checks: errors state what was given, what was expected and what to do."""

from __future__ import annotations

from collections.abc import Callable
import operator
import sys
from typing import TYPE_CHECKING
from typing import Any
from typing import TypeGuard

import jax
import jax.numpy as jnp
import numpy as np

if TYPE_CHECKING:
  from jax import Array
  from jax.typing import ArrayLike
  from jaxtyping import Float
  from jaxtyping import ScalarLike


def as_floating(name: str, x: ArrayLike) -> Array:
  """Return `x` as an array and require a real floating dtype."""
  try:
    x = jnp.asarray(x)
  except (TypeError, ValueError) as error:
    raise TypeError(
      f"`{name}` is {type(x).__name__}, expected an array of numbers."
    ) from error
  if not jnp.issubdtype(x.dtype, jnp.floating):
    raise TypeError(
      f"`{name}` has dtype {x.dtype}, expected a floating dtype; "
      f"convert it first, e.g. `{name}.astype(jnp.float32)`."
    )
  return x


def as_features(name: str, phi: ArrayLike) -> Float[Array, "*batch N d"]:
  """Return `phi` as an array of at least one feature vector."""
  phi = as_floating(name, phi)
  if phi.ndim < 2:
    raise ValueError(
      f"`{name}` has shape {phi.shape}, expected [..., N, d]: N feature vectors of "
      "d channels; flatten a feature map with `reshape(-1, d)` first."
    )
  if phi.shape[-2] < 1 or phi.shape[-1] < 1:
    raise ValueError(
      f"`{name}` has shape {phi.shape}, expected [..., N, d] with N >= 1 and "
      "d >= 1; there is nothing to pool."
    )
  return phi


def as_vectors(name: str, x: ArrayLike) -> Float[Array, "*batch d"]:
  """Return `x` as an array of vectors with at least one entry."""
  x = as_floating(name, x)
  if x.ndim < 1 or x.shape[-1] < 1:
    raise ValueError(
      f"`{name}` has shape {x.shape}, expected vectors [..., d] with d >= 1."
    )
  return x


def as_square(name: str, m: ArrayLike) -> Float[Array, "*batch d d"]:
  """Return `m` as an array of square matrices."""
  m = as_floating(name, m)
  if m.ndim < 2 or m.shape[-1] != m.shape[-2] or m.shape[-1] < 1:
    raise ValueError(
      f"`{name}` has shape {m.shape}, expected square matrices [..., d, d]; "
      "compute them from features [..., N, d] with `cooccurrence(phi)`."
    )
  return m


def as_scalar(
  name: str,
  value: ScalarLike,
  dtype: jnp.dtype,
  *,
  above: float | None = None,
  at_least: float | None = None,
  at_most: float | None = None,
) -> Float[Array, ""]:
  """Return `value` as a scalar of `dtype`; check its range unless it is traced."""
  largest = float(jnp.finfo(dtype).max)
  check_number(name, value, largest, above=above, at_least=at_least, at_most=at_most)
  return jnp.asarray(value, dtype)


def check_number(
  name: str,
  value: ScalarLike,
  largest: float = sys.float_info.max,
  *,
  above: float | None = None,
  at_least: float | None = None,
  at_most: float | None = None,
) -> ScalarLike:
  """Return `value`, and require a real number in a range unless it is traced.

  Args:
    name: Name of the parameter.
    value: Its value.
    largest: Largest magnitude of a number that counts as finite.
    above: Lower bound that is excluded.
    at_least: Lower bound that is included.
    at_most: Upper bound that is included.
  """
  if not isinstance(value, jax.Array | np.ndarray | np.generic | int | float):
    raise TypeError(f"`{name}` is {value!r}, expected a number.")
  if jnp.ndim(value) != 0:
    raise ValueError(
      f"`{name}` has shape {jnp.shape(value)}, expected a scalar; "
      "use `jax.vmap` for several values at once."
    )
  dtype = jnp.result_type(value)
  if not (jnp.issubdtype(dtype, jnp.floating) or jnp.issubdtype(dtype, jnp.integer)):
    raise TypeError(f"`{name}` has dtype {dtype}, expected a real number.")
  if not is_concrete(value):
    return value
  number = value if isinstance(value, int) else float(value)
  bounds: list[tuple[float | None, Callable[[Any, Any], bool], str]] = [
    (above, operator.gt, "> {}"),
    (at_least, operator.ge, ">= {}"),
    (at_most, operator.le, "<= {}"),
  ]
  bounds = [bound for bound in bounds if bound[0] is not None]
  if not all(holds(number, limit) for limit, holds, _ in bounds):
    expected = " and ".join(text.format(limit) for limit, _, text in bounds)
    raise ValueError(f"`{name}` is {value}, expected {expected}.")
  if not abs(number) <= largest:
    raise ValueError(f"`{name}` is {value}, expected a finite number.")
  return value


def check_lam(lam: ScalarLike) -> ScalarLike:
  """Return λ, and require a number: None would keep the trace."""
  return check_number("lam", lam, at_least=0)


def as_positive(dtype: jnp.dtype, **parameter: ScalarLike) -> Array:
  """Return the one named parameter as a positive scalar of `dtype`."""
  ((name, value),) = parameter.items()
  return as_scalar(name, value, dtype, above=0)


def as_count(name: str, value: int, at_least: int = 1) -> int:
  """Return `value` as a Python integer and require it to be `at_least` or more."""
  try:
    count = operator.index(value)
  except TypeError as error:
    raise TypeError(f"`{name}` is {value!r}, expected a Python integer.") from error
  if count < at_least:
    raise ValueError(f"`{name}` is {count}, expected at least {at_least}.")
  return count


def is_concrete(value: ArrayLike) -> bool:
  """Whether `value` is known at trace time."""
  return not isinstance(value, jax.core.Tracer)


def is_whole(value: ArrayLike) -> TypeGuard[int]:
  """Whether `value` is a Python integer, and so known at trace time."""
  return isinstance(value, int) and not isinstance(value, bool)


def upcast(x: Array) -> Array:
  """Convert half precision to float32 and leave any other dtype unchanged."""
  return x.astype(jnp.float32) if jnp.finfo(x.dtype).bits < 32 else x
