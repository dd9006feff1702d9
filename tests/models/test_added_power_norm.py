"""A fifth Power Normalization, added to the table with its element-wise form only."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import config as config_lib
from pnjax import models
from pnjax import ops
from tests.models import poolings

DEFAULT = 2.0


@pytest.fixture(autouse=True)
def log1p(monkeypatch):
  norm = ops.PowerNorm(
    default=DEFAULT, matrix=lambda m, parameter, lam=1e-6: jnp.log1p(parameter * m)
  )
  monkeypatch.setitem(ops.POWER_NORMS, "log1p", norm)


@pytest.fixture
def x(rng):
  return poolings.feature_maps(rng, 2, 3, 3, 4)


def make_config(rank=None, **fields):
  config = config_lib.get_config()
  config.pooling.update({"power_norm": "log1p", **fields})
  config.classifier.rank = rank
  return config


def make_layer(**fields):
  config = make_config(**fields)
  models.check_pooling(config)
  assert models.missing_parameters(config) == []
  return models.pooling_from_config(config, {}).clone(triangle=False)


def expected(x, parameter):
  phi = np.maximum(x, 0).reshape(2, 9, 4)
  return np.log1p(parameter * np.swapaxes(phi, 1, 2) @ phi / 9)


def test_matrix_and_gradient(x):
  layer = make_layer(parameter=3.0)

  @jax.jit
  def matrix_and_gradient(x):
    matrix, vjp = jax.vjp(lambda x: layer.apply({}, x), x)
    return matrix, vjp(jnp.ones_like(matrix))[0]

  matrix, gradient = matrix_and_gradient(x)
  np.testing.assert_allclose(matrix, expected(x, 3.0), rtol=1e-4, atol=1e-6)
  assert np.isfinite(gradient).all()
  np.testing.assert_array_equal(gradient != 0, x > 0)


def test_default_parameter(x):
  matrix = poolings.pool(make_layer(), x)
  np.testing.assert_allclose(matrix, expected(x, DEFAULT), rtol=1e-4, atol=1e-6)


def test_learned_parameter(x):
  layer = make_layer(parameter=3.0, learnable=("parameter",))

  @jax.jit
  def matrix_and_gradients(x):
    variables = layer.init(jax.random.key(0), x)
    matrix, vjp = jax.vjp(lambda variables: layer.apply(variables, x), variables)
    return matrix, vjp(jnp.ones_like(matrix))[0]["params"]

  matrix, gradients = matrix_and_gradients(x)
  np.testing.assert_allclose(matrix, expected(x, 3.0), rtol=1e-4, atol=1e-6)
  assert gradients.keys() == {"log_parameter"}
  assert np.isfinite(gradients["log_parameter"]) and gradients["log_parameter"] > 0


@pytest.mark.parametrize(
  ("fields", "form"),
  [
    ({"spectral": True}, "spectral"),
    ({"spectral": True, "rank": 5}, "forms"),
    ({"order": 1}, "first_order"),
  ],
)
def test_missing_forms_are_refused(fields, form):
  with pytest.raises(ValueError) as error:
    models.check_pooling(make_config(**fields))
  message = f"`power_norm` is 'log1p', whose record in `POWER_NORMS` has no `{form}`."
  assert str(error.value) == message


def test_parameters_of_other_functions_are_refused():
  with pytest.raises(ValueError, match=r"`eta` is 3.*it uses `parameter`"):
    models.check_pooling(make_config(eta=3.0))


def test_a_parameter_without_a_field_is_refused(monkeypatch):
  norm = ops.PowerNorm(default=1.0, matrix=ops.asinhe, parameter="scale")
  monkeypatch.setitem(ops.POWER_NORMS, "log1p", norm)
  with pytest.raises(ValueError, match="parameter of 'log1p' is called 'scale', expec"):
    models.check_pooling(make_config())


def test_a_learned_parameter_has_to_be_positive():
  config = make_config(parameter=-1.0, learnable=("parameter",))
  with pytest.raises(ValueError, match=r"`parameter` is -1\.0, expected more than 0"):
    models.check_pooling(config)
