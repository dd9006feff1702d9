"""The shapes that signatures declare, compared with those that functions return."""

from collections.abc import Callable
import inspect
import typing

import jax
import pytest

from pnjax import ops
from tests.ops.calls import CALLS

jaxtyping = pytest.importorskip("jaxtyping")


def declared(f):
  """The annotations of `f`, with the names that only type checkers import."""
  names = {"Array": jax.Array, "ArrayLike": jax.typing.ArrayLike}
  names |= {name: getattr(jaxtyping, name) for name in ("Float", "ScalarLike")}
  return typing.get_type_hints(f, localns=names)


def alternatives(hint):
  """The types of a union: `isinstance` of it would not look at the shapes."""
  if typing.get_origin(hint) is Callable:  # Its arguments cannot be checked.
    return [Callable]
  return typing.get_args(hint) or [hint]


@pytest.mark.parametrize("name", CALLS)
def test_shapes(name):
  f, args = getattr(ops, name), CALLS[name]
  hints = declared(f)
  out = jax.eval_shape(lambda: f(*args))
  with jaxtyping.jaxtyped("context"):  # One binding of N, d, ... for all arrays.
    for argument, value in inspect.signature(f).bind(*args).arguments.items():
      assert any(isinstance(value, t) for t in alternatives(hints[argument])), argument
    result = hints["return"]
    if typing.get_origin(result) is dict:
      out, result = next(iter(out.values())), typing.get_args(result)[1]
    assert isinstance(out, jaxtyping.Float[jax.ShapeDtypeStruct, result.dim_str])


def test_every_function_is_called():
  functions = {name for name in ops.__all__ if inspect.isfunction(getattr(ops, name))}
  # The shapes that these return depend on integers.
  assert functions - set(CALLS) == {"spatial_coordinates", "tensor_feature_map"}
