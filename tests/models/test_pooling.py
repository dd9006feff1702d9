"""First-order pooling, and what both pooling layers have in common."""

from flax import nnx
from flax.nnx import bridge
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import models
from pnjax import ops
from tests.models.poolings import POOLINGS
from tests.models.poolings import feature_maps
from tests.models.poolings import pool
from tests.models.poolings import pool_and_compare


def test_first_order_is_the_average(rng):
  x = feature_maps(rng, 2, 3, 4, 5)
  expected = np.maximum(x, 0).mean(axis=(1, 2))
  np.testing.assert_allclose(pool(models.FirstOrderPooling(), x), expected, rtol=1e-5)
  unrectified = pool(models.FirstOrderPooling(rectify=False), x)
  expected = np.mean(x, axis=(1, 2))
  np.testing.assert_allclose(unrectified, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
  ("name", "function"),
  [
    ("gamma", ops.gamma),
    ("maxexp", ops.first_order_maxexp),
    ("asinhe", ops.asinhe),
    (
      "sigme",
      lambda mean, eta_prime: ops.sigme(mean, eta_prime, trace_normalize=False),
    ),
  ],
)
def test_first_order_power_norms(rng, name, function):
  def reference(x):
    mean = jnp.maximum(x, 0).mean(axis=(1, 2))
    return function(mean, ops.POWER_NORMS[name].default)

  x = feature_maps(rng, 2, 3, 4, 5)
  layer = models.FirstOrderPooling(power_norm=name)
  pool_and_compare(layer, reference, x, rtol=1e-5, atol=0)


@pytest.mark.parametrize("power_norm", ["gamma", "maxexp"])
def test_negative_features_are_refused_where_they_are_undefined(rng, power_norm):
  x = feature_maps(rng, 2, 3, 3, 5)
  for layer in (models.FirstOrderPooling, models.SecondOrderPooling):
    with pytest.raises(ValueError, match="`rectify` is False, expected True"):
      layer(power_norm=power_norm, rectify=False).apply({}, x)
  spectral = models.SecondOrderPooling(
    power_norm=power_norm, rectify=False, spectral=True
  )
  assert jnp.all(jnp.isfinite(pool(spectral, x)))


@pytest.mark.parametrize(
  "layer", [models.FirstOrderPooling(), models.SecondOrderPooling()]
)
def test_inputs_that_are_not_feature_maps_are_refused(layer):
  with pytest.raises(ValueError, match=r"\(3, 5\).*\[B, H, W, d\]"):
    layer.apply({}, jnp.zeros((3, 5)))
  with pytest.raises(ValueError, match="expected at least one position"):
    layer.apply({}, jnp.zeros((2, 0, 4, 6)))


def test_from_nnx(rng):
  """A Linen pooling layer in an NNX model, through `nnx.bridge`."""
  x = feature_maps(rng, 2, 3, 3, 5)
  pooling = models.SecondOrderPooling(power_norm="sigme", learnable=("eta_prime",))

  @nnx.jit
  def output_and_gradients(x):
    model = bridge.ToNNX(pooling, rngs=nnx.Rngs(0)).lazy_init(x)
    return model(x), nnx.grad(lambda m: jnp.sum(m(x)))(model)

  output, grads = output_and_gradients(x)
  np.testing.assert_allclose(output, pool(pooling, x), rtol=1e-5)
  assert jax.tree.leaves(grads)
  assert all(np.isfinite(g).all() for g in jax.tree.leaves(grads))


@pytest.mark.parametrize("name", POOLINGS)
def test_training_through_pooling(rng, name):
  """Gradients pass through the layer, and stay finite on feature maps of zeros."""
  layer = POOLINGS[name]
  x = feature_maps(rng, 2, 2, 3, 3, 4)  # Two patches of each image.
  variables = jax.jit(layer.init)(jax.random.key(0), x)
  params = {"kernel": feature_maps(rng, 4, 4), "pooling": variables}

  @jax.jit
  def step(params, x):
    def loss(params):
      vectors = layer.apply(params["pooling"], x @ params["kernel"])
      return jnp.sum(jnp.square(vectors - 1))

    grads = jax.grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 1e-3 * g, params, grads), grads

  _, grads = step(params, x)
  assert np.isfinite(grads["kernel"]).all() and np.any(grads["kernel"] != 0)
  for _ in range(3):
    params, grads = step(params, np.zeros_like(x))
    assert all(np.isfinite(g).all() for g in jax.tree.leaves(grads))
