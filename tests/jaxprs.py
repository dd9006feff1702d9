"""Inspection of programs before they run."""

from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import jax
from jax.extend import core


def equations(f: Callable, *args: Any) -> Iterator[core.JaxprEqn]:
  """Yields all equations of a function, including those of inner programs."""
  yield from _equations(jax.make_jaxpr(f)(*args).jaxpr)


def _equations(jaxpr: core.Jaxpr) -> Iterator[core.JaxprEqn]:
  for equation in jaxpr.eqns:
    yield equation
    for inner in core.jaxprs_in_params(equation.params):
      yield from _equations(inner)


def has_shape(f: Callable, args: tuple, shape: tuple[int, ...]) -> bool:
  """Returns whether a function makes an array whose last axes have the given shape."""
  return any(
    getattr(out.aval, "shape", ())[-len(shape) :] == shape
    for equation in equations(f, *args)
    for out in equation.outvars
  )
