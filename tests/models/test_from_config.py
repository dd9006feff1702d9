import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.configs import methods
from pnjax import config as config_lib
from pnjax import models
from pnjax import ops
from tests.models import poolings


def make_config(method="sop_sc_sigme", rank=None, **fields):
  config = config_lib.get_config()
  methods.apply(config, method)
  config.pooling.update(fields)
  config.classifier.rank = rank
  return config


@pytest.fixture(scope="module")
def feature_maps():
  """Feature maps of 4 images, not rectified."""
  return poolings.feature_maps(np.random.default_rng(0), 4, 8, 4, 16)


def suggest(config, feature_maps):
  """Returns what all of the feature maps suggest."""
  return models.suggest_pooling_parameters(
    config,
    num_images=len(feature_maps),
    feature_maps_at=lambda indices: feature_maps[indices],
  )


def test_first_order():
  config = make_config("fop_asinhe", gamma_prime=3.0)
  layer = models.pooling_from_config(config, {})
  assert isinstance(layer, models.FirstOrderPooling)
  assert (layer.power_norm, layer.gamma_prime) == ("asinhe", 3.0)


def test_second_order_uses_suggested_values():
  config = make_config(beta=0.4, sigma=0.5)
  layer = models.pooling_from_config(config, {"eta_prime": 200.0, "alpha": 0.25})
  assert isinstance(layer, models.SecondOrderPooling)
  assert (layer.power_norm, layer.eta_prime) == ("sigme", 200.0)
  assert (layer.alpha, layer.beta, layer.sigma) == (0.25, 0.4, 0.5)


def test_rank_is_a_field_of_the_classifier():
  config = make_config("sop_spec_sigme", rank=5)
  assert models.pooling_from_config(config, {"eta_prime": 3.0}).rank == 5


@pytest.mark.parametrize(("eta", "kind"), [(20.0, int), (20.5, float)])
def test_a_whole_eta_becomes_an_integer(eta, kind):
  layer = models.pooling_from_config(make_config("sop_spec_maxexp", eta=eta), {})
  assert layer.eta == eta
  assert type(layer.eta) is kind


def test_image_classifier():
  config = make_config("sop_gamma")
  backbone = models.TinyResNet()
  model = models.image_classifier_from_config(config, backbone, 7, {})
  assert model.backbone == backbone
  assert model.pooling == models.pooling_from_config(config, {})
  assert (model.num_classes, model.normalize) == (7, False)


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
def test_missing_parameters(method, fields, expected):
  assert models.missing_parameters(make_config(method, **fields)) == expected


@pytest.mark.parametrize("method", methods.METHODS)
def test_all_methods_are_consistent(method):
  models.check_pooling(make_config(method))


@pytest.mark.parametrize(
  ("method", "fields", "message"),
  [
    ("sop", {"order": 3}, "pooling.order is 3, expected 1 or 2"),
    ("fop", {"beta": 0.4}, "pooling.beta is 0.4, but pooling.order is 1"),
    ("fop", {"spectral": True}, "pooling.spectral is True, but pooling.order is 1"),
    ("fop", {"rank": 5}, "classifier.rank is 5, but pooling.order is 1"),
    ("sop_sigme", {"rank": 5}, "`rank` is 5, but element-wise sigme"),
    ("sop_gamma", {"beta": 0.4}, "beta"),
    ("sop_maxexp", {"beta": 0.4}, "beta"),
    ("sop", {"beta": 1.5}, "beta"),
    ("sop", {"power_norm": "sigmoid"}, "sigmoid"),
    ("sop_sigme", {"learnable": ("gamma_prime",)}, "gamma_prime"),
    ("sop_sigme", {"eta_prime": None, "reduction": 3}, "pooling.eta_prime is None"),
  ],
)
def test_contradictory_fields_are_refused(method, fields, message):
  with pytest.raises(ValueError, match=message):
    models.check_pooling(make_config(method, **fields))


def test_suggestions_are_for_rectified_and_centered_features(feature_maps):
  suggested = suggest(make_config(beta=0.4), feature_maps)
  phi = ops.beta_center(jax.nn.relu(feature_maps).reshape(4, 32, 16), 0.4)
  expected = ops.suggest_parameters(phi)
  assert suggested.keys() == {"eta_prime", "alpha"}
  for name, value in suggested.items():
    np.testing.assert_allclose(value, expected[name], rtol=1e-6)


def test_first_order_suggestions_are_for_averages(feature_maps):
  suggested = suggest(make_config("fop_asinhe"), feature_maps)
  averages = jnp.mean(jax.nn.relu(feature_maps), axis=(1, 2))
  expected = ops.suggest_first_order_parameters(averages)
  np.testing.assert_allclose(
    suggested["gamma_prime"], expected["gamma_prime"], rtol=1e-6
  )


@pytest.mark.parametrize("method", ["sop_maxexp", "sop_spec_maxexp", "fop_maxexp"])
def test_suggested_etas_are_whole(feature_maps, method):
  (eta,) = suggest(make_config(method), feature_maps).values()
  assert eta.is_integer()
  assert eta >= 1


def test_patches_of_an_image_suggest_together(feature_maps):
  patches = feature_maps.reshape(4, 2, 4, 4, 16)
  assert suggest(make_config(), patches) == suggest(make_config(), feature_maps)


def test_a_few_images_of_all_parts_of_the_dataset_suggest(feature_maps):
  seen = []

  def feature_maps_at(indices):
    seen.extend(indices.tolist())
    return feature_maps

  models.suggest_pooling_parameters(make_config(), 1000, feature_maps_at)
  assert len(seen) == 32
  assert (seen[0], seen[-1]) == (0, 999)
  assert max(np.diff(seen)) <= 33


def test_nothing_is_suggested_if_nothing_is_missing():
  def feature_maps_at(indices):
    raise AssertionError("no features are needed")

  config = make_config("sop_gamma")
  assert models.suggest_pooling_parameters(config, 8, feature_maps_at) == {}


@pytest.mark.parametrize(
  ("backbone", "size", "message"),
  [
    ("resnet50", 0, "dataset.image_size is 0, expected 1 or more"),
    ("alexnet", 32, "dataset.image_size is 32, which is too small for alexnet"),
    ("vit_s16", 15, "dataset.image_size is 15, which is too small for vit_s16"),
  ],
)
def test_images_that_are_too_small_are_refused(backbone, size, message):
  config = config_lib.get_config()
  config.backbone.name = backbone
  config.dataset.image_size = size
  with pytest.raises(ValueError, match=message):
    models.check_image_size(config, models.BACKBONES[backbone]())


def test_images_that_are_large_enough():
  config = config_lib.get_config()
  config.dataset.image_size = 32
  models.check_image_size(config, models.TinyResNet())
