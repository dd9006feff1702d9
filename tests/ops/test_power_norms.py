import inspect

import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import ops

LAM = 1e-3


@pytest.fixture
def phi(rng):
  """Rectified features `[5, 4]`."""
  return jnp.asarray(np.maximum(rng.normal(size=(5, 4)), 0), jnp.float32)


def test_the_table_has_the_functions_of_the_paper():
  parameters = {name: norm.parameter for name, norm in ops.POWER_NORMS.items()}
  assert parameters == {
    "gamma": "power",
    "maxexp": "eta",
    "asinhe": "gamma_prime",
    "sigme": "eta_prime",
  }


@pytest.mark.parametrize("name", ops.POWER_NORMS)
def test_forms_are_the_public_functions(name, phi):
  norm = ops.POWER_NORMS[name]
  m, directions = ops.cooccurrence(phi), jnp.eye(4)[:, :2]
  first_order = {
    "maxexp": ops.first_order_maxexp,
    "sigme": lambda mean, eta: ops.sigme(mean, eta, trace_normalize=False),
  }
  pairs = [
    (norm.matrix, getattr(ops, name), (m,)),
    (norm.pool, getattr(ops, f"{name}_pool"), (phi,)),
    (norm.spectral, getattr(ops, f"spectral_{name}_pool"), (phi,)),
    (norm.forms, getattr(ops, f"spectral_{name}_forms"), (phi, directions)),
    (norm.first_order, first_order.get(name, getattr(ops, name)), (phi.mean(axis=0),)),
  ]
  for form, function, arrays in pairs:
    uses_lam = "lam" in inspect.signature(function).parameters
    lam = {"lam": LAM} if uses_lam else {}
    expected = function(*arrays, norm.default, **lam)
    # All forms accept λ, by position and by name, and have a default.
    np.testing.assert_array_equal(form(*arrays, norm.default, LAM), expected)
    np.testing.assert_array_equal(form(*arrays, norm.default, lam=LAM), expected)
    np.testing.assert_array_equal(
      form(*arrays, norm.default), function(*arrays, norm.default)
    )


@pytest.mark.parametrize("name", ops.POWER_NORMS)
def test_bounded_functions_saturate(name):
  norm = ops.POWER_NORMS[name]
  largest = float(jnp.max(jnp.abs(norm.matrix(1e4 * jnp.eye(2), 1e4))))
  assert norm.bounded == (largest <= 1)


@pytest.mark.parametrize("name", ops.POWER_NORMS)
def test_functions_of_negative_entries_are_odd(name):
  norm = ops.POWER_NORMS[name]
  m = jnp.array([[1.0, 0.2], [0.2, 1.0]])
  negative = m * jnp.array([[1.0, -1.0], [-1.0, 1.0]])
  value, opposite = (norm.matrix(x, 2.0)[0, 1] for x in (m, negative))
  assert norm.needs_nonnegative == (not np.isclose(opposite, -value))


@pytest.mark.parametrize("name", ops.POWER_NORMS)
def test_suggested_parameters_are_suggested(name, phi):
  norm = ops.POWER_NORMS[name]
  assert norm.has_suggestion == (norm.parameter in ops.suggest_parameters(phi))
  mean = phi.mean(axis=0)
  assert norm.has_suggestion == (
    norm.parameter in ops.suggest_first_order_parameters(mean)
  )


def test_a_function_of_entries_is_enough(phi):
  def log1p(m, parameter, lam=1e-6):
    return jnp.log1p(parameter * m)

  norm = ops.PowerNorm(default=3.0, matrix=log1p)
  assert norm.parameter == "parameter"
  np.testing.assert_allclose(
    norm.pool(phi, 3.0), np.log1p(3 * ops.cooccurrence(phi)), rtol=1e-6
  )
  assert norm.spectral is norm.forms is norm.first_order is None
