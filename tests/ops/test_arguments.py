"""Arguments of every public function that are of another type, shape or range."""

import inspect
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import ops
from tests.ops.calls import CALLS

ALL_CALLS = CALLS | {
  "spatial_coordinates": (3, 4, 5, 0.5, 1.0),
  "tensor_feature_map": (CALLS["cooccurrence"][0], 2),
}


def parameters_of(kind):
  """Each function with each of its parameters whose annotation begins like `kind`."""
  return [
    pytest.param(name, parameter.name, id=f"{name}-{parameter.name}")
    for name in ALL_CALLS
    for parameter in inspect.signature(getattr(ops, name)).parameters.values()
    if parameter.annotation.startswith(kind)
  ]


def call(name, parameter, value):
  """Calls a function with one argument replaced."""
  f = getattr(ops, name)
  arguments = inspect.signature(f).bind(*ALL_CALLS[name]).arguments
  return f(**arguments | {parameter: value})


def refuse(name, parameter, value):
  """Expects an error of one line that names the parameter."""
  with pytest.raises((TypeError, ValueError), match=f"`{parameter}`") as error:
    call(name, parameter, value)
  assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("name, parameter", parameters_of("Float[ArrayLike"))
def test_something_else_than_an_array(name, parameter):
  for value in ("features", None, [[1.0], [1.0, 2.0]], {}, object()):
    refuse(name, parameter, value)


@pytest.mark.parametrize("name, parameter", parameters_of("Float[ArrayLike"))
def test_array_of_another_dtype(name, parameter):
  arguments = inspect.signature(getattr(ops, name)).bind(*ALL_CALLS[name]).arguments
  for dtype in (np.int32, np.uint8, bool, np.complex64):
    refuse(name, parameter, np.ones_like(arguments[parameter], dtype))


# Shapes of the annotation: shapes that differ. Functions of entries take any.
OTHER_SHAPES = {
  "N d": [(), (5,), (0, 5), (3, 0)],
  "N k": [(), (6,), (5, 6), (0, 6), (4, 0), (5, 4, 6), (2, 2, 3, 4, 6)],
  "d d": [(), (5,), (4, 5), (0, 0), (2, 5, 4)],
  "*batch d": [(), (0,), (2, 0)],
  "*batch l": [(), (0,), (4,), (2, 0)],
  " Z": [(), (0,), (1,), (2, 3)],
  "d R": [(), (5,), (4, 7), (2, 5, 7)],
}


def parameters_with_shapes():
  """Each function with each of its arrays, and with shapes that the array has not."""
  for parameter in parameters_of("Float[ArrayLike"):
    name, argument = parameter.values
    annotation = inspect.signature(getattr(ops, name)).parameters[argument].annotation
    for end, shapes in OTHER_SHAPES.items():
      if annotation.endswith(f'{end}"]'):
        yield pytest.param(name, argument, shapes, id=parameter.id)


@pytest.mark.parametrize("name, parameter, shapes", list(parameters_with_shapes()))
def test_array_of_another_shape(name, parameter, shapes):
  for shape in shapes:
    refuse(name, parameter, np.ones(shape, np.float32))


def test_arrays_of_different_shapes():
  two, three = np.ones((2, 2), np.float32), np.ones((3, 3), np.float32)
  for f in (ops.add_residual, ops.trace_compensate):
    with pytest.raises(ValueError, match=r"`psi` has shape \(2, 2\) and `m` \(3, 3\)"):
      f(two, three, 0.5)
  with pytest.raises(ValueError, match="`p`, `q` and `s` have shapes"):
    ops.probability_at_least_one_multinomial(two, two, three, 3)


@pytest.mark.parametrize("name, parameter", parameters_of("ScalarLike"))
def test_parameter_that_is_no_finite_number(name, parameter):
  for value in ("2", None, [2.0], np.ones(2), 2j, True, {}):
    refuse(name, parameter, value)
  for value in (math.nan, math.inf, -math.inf, 1e300, 10**400, jnp.array(jnp.nan)):
    refuse(name, parameter, value)


LOWER_BOUNDS = {"lam": 0, "beta": 0} | dict.fromkeys(
  ("eta", "power", "gamma_prime", "eta_prime", "sigma"), 1e-30
)


@pytest.mark.parametrize("name, parameter", parameters_of("ScalarLike"))
def test_parameter_out_of_range(name, parameter):
  if parameter in LOWER_BOUNDS:
    for value in (-1, -1e-9, *([0, 0.0] if LOWER_BOUNDS[parameter] else [])):
      refuse(name, parameter, value)
  else:
    assert parameter in ("alpha", "kappa")


def test_centering_by_more_than_the_mean():
  refuse("beta_center", "beta", 1.1)


def test_traced_parameters_are_not_checked():
  f = jax.jit(lambda power: ops.gamma(np.ones((2, 2), np.float32), power))
  assert np.isnan(f(jnp.nan)).all()


@pytest.mark.parametrize("name, parameter", parameters_of("int"))
def test_count_that_is_no_positive_integer(name, parameter):
  if parameter == "axis":
    with pytest.raises(ValueError, match="axis 7 is out of bounds"):
      call(name, parameter, 7)
    return
  for value in (0, -1, 1.5, "2", None, 2.0, [2]):
    refuse(name, parameter, value)


@pytest.mark.parametrize("name, parameter", parameters_of("str"))
def test_unknown_route(name, parameter):
  for value in ("gramm", "", None, 3, ["gram"]):
    refuse(name, parameter, value)


@pytest.mark.parametrize("name", ["spectral_sigme_pool", "spectral_sigme_forms"])
def test_bound_that_is_no_positive_number(name):
  for value in ("2", -1, 0, math.nan, math.inf, 1.0):  # η' is 2.
    refuse(name, "max_eta_prime", value)


def test_pivots_without_a_range():
  for low, high in [("0", 1), (math.nan, 1), (0, math.inf), (1, 1), (None, 1)]:
    with pytest.raises((TypeError, ValueError), match=r"`low` is|`high` is"):
      ops.equally_spaced_pivots(3, low, high)


@pytest.mark.parametrize("name", ["spectral_map", "spectral_map_pool"])
def test_function_of_eigenvalues_that_is_none(name):
  for value in (3, None, "tanh", lambda x: (x, x)):
    refuse(name, "f", value)
  for value in (3, "tanh", 0):
    refuse(name, "df", value)
