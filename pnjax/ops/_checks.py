"""Argument checks: errors state what was given, what was expected and what to do."""

from __future__ import annotations

from collections.abc import Callable
import operator
from typing import TYPE_CHECKING
from typing import Any
from typing import TypeGuard

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
  from jax import Array
  from jax.typing import ArrayLike
  from jaxtyping import Float
  from jaxtyping import ScalarLike


def as_floating(name: str, x: ArrayLike) -> Array:
  """Return `x` as an array and require a real floating dtype."""
  x = jnp.asarray(x)
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
  if jnp.ndim(value) != 0:
    raise ValueError(
      f"`{name}` has shape {jnp.shape(value)}, expected a scalar; "
      "use `jax.vmap` for several values at once."
    )
  if is_concrete(value):
    bounds: list[tuple[float | None, Callable[[Any, Any], bool], str]] = [
      (above, operator.gt, "> {}"),
      (at_least, operator.ge, ">= {}"),
      (at_most, operator.le, "<= {}"),
    ]
    bounds = [bound for bound in bounds if bound[0] is not None]
    if not all(holds(value, limit) for limit, holds, _ in bounds):
      expected = " and ".join(text.format(limit) for limit, _, text in bounds)
      raise ValueError(f"`{name}` is {value}, expected {expected}.")
  return jnp.asarray(value, dtype)


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
