import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.configs import default
from experiments.configs import methods
from pnjax import models
from pnjax import ops
from pnjax.train import heads


def head(method="sop_sc_sigme", **fields):
  config = default.get_config()
  methods.apply(config, method)
  config.head.update(fields)
  return config.head


@pytest.fixture
def maps(rng):
  """Maps `[8, 4, 4, 16]` of a backbone, not rectified."""
  return jnp.asarray(rng.standard_normal((8, 4, 4, 16)), jnp.float32)


def test_first_order():
  layer = heads.pooling(head("fop_asinhe", gamma_prime=3.0), {})
  assert isinstance(layer, models.FirstOrderPooling)
  assert (layer.power_norm, layer.gamma_prime) == ("asinhe", 3.0)


def test_second_order_takes_what_was_suggested():
  layer = heads.pooling(head(beta=0.4, sigma=0.5), {"eta_prime": 200.0, "alpha": 0.25})
  assert isinstance(layer, models.SecondOrderPooling)
  assert (layer.power_norm, layer.eta_prime) == ("sigme", 200.0)
  assert (layer.alpha, layer.beta, layer.sigma) == (0.25, 0.4, 0.5)


@pytest.mark.parametrize(("eta", "kind"), [(20.0, int), (20.5, float)])
def test_a_whole_eta_becomes_an_integer(eta, kind):
  layer = heads.pooling(head("sop_spec_maxexp", eta=eta), {})
  assert layer.eta == eta
  assert type(layer.eta) is kind


@pytest.mark.parametrize(
  ("method", "fields", "expected"),
  [
    ("baseline", {}, []),
    ("sop", {}, []),
    ("sop_gamma", {}, []),
    ("fop_asinhe", {}, ["gamma_prime"]),
    ("sop_maxexp", {}, ["eta"]),
    ("sop_sigme", {}, ["eta_prime"]),
    ("sop_sc_sigme", {}, ["eta_prime", "alpha"]),
    ("sop_sc_sigme", {"alpha": 0.5}, ["eta_prime"]),
    ("sop_sc_sigme", {"alpha": 0.5, "eta_prime": 3.0}, []),
  ],
)
def test_fields_that_are_missing(method, fields, expected):
  assert heads.missing(head(method, **fields)) == expected


@pytest.mark.parametrize("method", methods.METHODS)
def test_all_methods_fit_together(method):
  heads.check(head(method))


@pytest.mark.parametrize(
  ("method", "fields", "message"),
  [
    ("sop", {"order": 3}, "head.order is 3, expected 1 or 2"),
    ("fop", {"beta": 0.4}, "head.beta is 0.4, but head.order is 1"),
    ("fop", {"spectral": True}, "head.spectral is True, but head.order is 1"),
    ("sop_gamma", {"beta": 0.4}, "beta"),
    ("sop_maxexp", {"beta": 0.4}, "beta"),
    ("sop", {"beta": 1.5}, "beta"),
    ("sop", {"power_norm": "sigmoid"}, "sigmoid"),
    ("sop_sigme", {"learnable": ("gamma_prime",)}, "gamma_prime"),
    ("sop_sigme", {"eta_prime": None, "reduction": 3}, "head.eta_prime is None"),
  ],
)
def test_fields_that_do_not_go_together(method, fields, message):
  with pytest.raises(ValueError, match=message):
    heads.check(head(method, **fields))


def test_suggestions_are_those_of_the_rectified_features(maps):
  suggested = heads.suggest(head(beta=0.4), maps)
  phi = ops.beta_center(jax.nn.relu(maps).reshape(8, 16, 16), 0.4)
  expected = ops.suggest_parameters(phi)
  assert suggested.keys() == {"eta_prime", "alpha"}
  for name, value in suggested.items():
    np.testing.assert_allclose(value, expected[name], rtol=1e-6)


def test_suggestions_of_the_first_order_are_those_of_averages(maps):
  suggested = heads.suggest(head("fop_asinhe"), maps)
  averages = jnp.mean(jax.nn.relu(maps), axis=(1, 2))
  expected = ops.suggest_first_order_parameters(averages)
  np.testing.assert_allclose(
    suggested["gamma_prime"], expected["gamma_prime"], rtol=1e-6
  )


@pytest.mark.parametrize("method", ["sop_maxexp", "sop_spec_maxexp", "fop_maxexp"])
def test_suggested_etas_are_whole(maps, method):
  (eta,) = heads.suggest(head(method), maps).values()
  assert eta.is_integer()
  assert eta >= 1


def test_patches_are_suggested_from_together(maps):
  patches = maps.reshape(4, 2, 4, 4, 16)
  whole = maps.reshape(4, 8, 4, 16)
  assert heads.suggest(head(), patches) == heads.suggest(head(), whole)


def test_nothing_is_suggested_where_nothing_is_missing(maps):
  assert heads.suggest(head("sop_gamma"), maps) == {}
