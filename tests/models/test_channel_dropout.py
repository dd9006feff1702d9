import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import models
from pnjax import ops
from pnjax.models import _channel_dropout
from tests.models.poolings import feature_maps


def apply(pooling, x, seed=None):
  variables = pooling.init(jax.random.key(0), x)
  rngs = None if seed is None else {"dropout": jax.random.key(seed)}
  return pooling.apply(variables, x, rngs=rngs)


@pytest.mark.parametrize("rate", [0.25, "adaptive"])
def test_channels_are_dropped_in_training_only(rng, rate):
  x = feature_maps(rng, 2, 3, 3, 32)
  x = x.at[..., 4:].set(0.1)  # The less channels vary, the more an image loses.
  dropping = models.SecondOrderPooling(dropout=rate, triangle=False)
  plain = apply(models.SecondOrderPooling(triangle=False), x)
  np.testing.assert_array_equal(apply(dropping, x), plain)
  np.testing.assert_array_equal(apply(dropping, x, 1), apply(dropping, x, 1))
  first, second = apply(dropping, x, 1), apply(dropping, x, 2)
  assert np.any(first != second)
  # Whole rows and columns are zero; what is left is scaled by one number per image.
  for psi, all_of_it in zip(first, plain, strict=True):
    kept = np.diagonal(psi) > 0
    assert 0 < kept.sum() < 32
    np.testing.assert_array_equal(psi != 0, np.outer(kept, kept) & (all_of_it != 0))
    ratios = psi[psi != 0] / all_of_it[psi != 0]
    np.testing.assert_allclose(ratios, ratios[0], rtol=1e-4)


def test_expected_features_and_rates():
  phi = jnp.ones((3, 2, 4000))
  rates = jnp.array([0.0, 0.5, 1.0])
  dropped = _channel_dropout.drop_channels(jax.random.key(0), phi, rates)
  np.testing.assert_allclose(jnp.mean(dropped == 0, axis=(1, 2)), rates, atol=0.03)
  np.testing.assert_allclose(jnp.mean(dropped, axis=(1, 2)), [1, 1, 0], atol=0.06)


def test_adaptive_rate_equals_its_definition(rng):
  phi = np.abs(rng.normal(size=(4, 9, 16))) * 0.3
  got = _channel_dropout.adaptive_rate(jnp.asarray(phi, jnp.float32))
  for features, rate in zip(phi, got, strict=True):
    covariance = np.cov(features.T, bias=True)
    total = covariance.sum(axis=1)
    importance = np.exp(features.mean(axis=0))
    cosine = importance @ total / np.linalg.norm(importance) / np.linalg.norm(total)
    np.testing.assert_allclose(rate, np.clip(1 - 2.5 * cosine, 0, 1), atol=1e-4)


def test_constant_features_have_finite_gradients():
  x = jnp.ones((1, 2, 2, 4))
  pooling = models.SecondOrderPooling(power_norm="sigme", dropout="adaptive")
  gradient = jax.grad(lambda x: jnp.sum(apply(pooling, x, 0)))(x)
  assert np.all(np.isfinite(gradient))


def test_coordinates_are_kept(rng):
  x = feature_maps(rng, 1, 3, 3, 8)
  pooling = models.SecondOrderPooling(dropout=0.9, num_pivots=2, triangle=False)
  psi = apply(pooling, x, 0)
  codes = ops.spatial_coordinates(3, 3, 2, 0.3, 1.0).reshape(9, 4)
  np.testing.assert_allclose(psi[0, 8:, 8:], codes.T @ codes / 9, rtol=1e-5)


@pytest.mark.parametrize("rate", ["often", 1.0, -0.1])
def test_bad_rates(rng, rate):
  with pytest.raises(ValueError, match="expected 'adaptive', a number"):
    apply(models.SecondOrderPooling(dropout=rate), feature_maps(rng, 1, 2, 2, 3))
