"""Checks of arguments: what was got, what was expected, what to do about it."""

import operator

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike


def as_floating(name: str, x: ArrayLike) -> jax.Array:
  """Returns `x` as an array, which has to be of a real floating dtype."""
  x = jnp.asarray(x)
  if not jnp.issubdtype(x.dtype, jnp.floating):
    raise TypeError(
      f"`{name}` has dtype {x.dtype}, expected a floating dtype; "
      f"convert it first, e.g. `{name}.astype(jnp.float32)`."
    )
  return x


def as_features(name: str, phi: ArrayLike) -> jax.Array:
  """Returns `phi` as features `[..., N, d]` with at least one vector."""
  phi = as_floating(name, phi)
  if phi.ndim < 2:
    raise ValueError(
      f"`{name}` has shape {phi.shape}, expected [..., N, d]: N feature "
      "vectors of d channels; flatten the map to `reshape(-1, d)` first."
    )
  if phi.shape[-2] < 1 or phi.shape[-1] < 1:
    raise ValueError(
      f"`{name}` has shape {phi.shape}, expected [..., N, d] with N >= 1 and "
      "d >= 1; there is nothing to pool."
    )
  return phi


def as_square(name: str, m: ArrayLike) -> jax.Array:
  """Returns `m` as a batch of square matrices `[..., d, d]`."""
  m = as_floating(name, m)
  if m.ndim < 2 or m.shape[-1] != m.shape[-2] or m.shape[-1] < 1:
    raise ValueError(
      f"`{name}` has shape {m.shape}, expected square matrices [..., d, d]; "
      "`cooccurrence(phi)` makes them from features [..., N, d]."
    )
  return m


def as_scalar(
  name: str,
  value: ArrayLike,
  dtype: jnp.dtype,
  *,
  above: float | None = None,
  at_least: float | None = None,
  at_most: float | None = None,
) -> jax.Array:
  """Returns `value` as a scalar of `dtype`; checks its range unless traced."""
  if jnp.ndim(value) != 0:
    raise ValueError(
      f"`{name}` has shape {jnp.shape(value)}, expected a scalar; "
      "use `jax.vmap` for several values at once."
    )
  if not isinstance(value, jax.core.Tracer):
    bounds = [
      (above, operator.gt, "> {}"),
      (at_least, operator.ge, ">= {}"),
      (at_most, operator.le, "<= {}"),
    ]
    bounds = [bound for bound in bounds if bound[0] is not None]
    if not all(holds(value, limit) for limit, holds, _ in bounds):
      expected = " and ".join(text.format(limit) for limit, _, text in bounds)
      raise ValueError(f"`{name}` is {value}, expected {expected}.")
  return jnp.asarray(value, dtype)


def as_count(name: str, value: int, at_least: int = 1) -> int:
  """Returns `value` as a Python integer that is at least `at_least`."""
  try:
    count = operator.index(value)
  except TypeError as error:
    raise TypeError(f"`{name}` is {value!r}, expected a Python integer.") from error
  if count < at_least:
    raise ValueError(f"`{name}` is {count}, expected at least {at_least}.")
  return count


def is_whole(value: ArrayLike) -> bool:
  """Whether `value` is a Python integer, which is known when a function is traced."""
  return isinstance(value, int) and not isinstance(value, bool)


def upcast(x: jax.Array) -> jax.Array:
  """Returns half-precision input in float32, anything else as it is."""
  return x.astype(jnp.float32) if jnp.finfo(x.dtype).bits < 32 else x
