"""What programs are made of, seen before they run."""

from collections.abc import Iterator

import jax
from jax.extend import core


def equations(f, *args) -> Iterator[core.JaxprEqn]:
  """Yields all equations of `f`, those of inner programs included."""
  yield from _equations(jax.make_jaxpr(f)(*args).jaxpr)


def _equations(jaxpr):
  for equation in jaxpr.eqns:
    yield equation
    for inner in jax.tree.leaves(
      list(equation.params.values()),
      is_leaf=lambda p: isinstance(p, core.Jaxpr | core.ClosedJaxpr),
    ):
      if isinstance(inner, core.ClosedJaxpr):
        inner = inner.jaxpr
      if isinstance(inner, core.Jaxpr):
        yield from _equations(inner)


def has_shape(f, args, shape) -> bool:
  """Whether `f` makes an array that ends in `shape`."""
  return any(
    getattr(out.aval, "shape", ())[-len(shape) :] == shape
    for equation in equations(f, *args)
    for out in equation.outvars
  )
