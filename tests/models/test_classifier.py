from flax import linen as nn
from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import models
from tests import jaxprs

BACKBONE = models.ResNet(stage_sizes=(1,), width=4)
POOLINGS = {
  "first order": models.FirstOrderPooling(power_norm="asinhe"),
  "second order": models.SecondOrderPooling(
    power_norm="sigme", num_pivots=3, learnable=("eta_prime",)
  ),
  "low rank": models.SecondOrderPooling(
    power_norm="sigme", spectral=True, num_pivots=3, rank=5
  ),
}


def pictures(rng, *shape):
  return jnp.asarray(rng.standard_normal((*shape, 3)), jnp.float32)


def initialized(rng, model, x):
  """Variables of `model`, but with a dense layer that is not zero."""
  variables = model.init(jax.random.key(0), x)
  kernel = variables["params"]["head"]["kernel"]
  variables["params"]["head"]["kernel"] = jnp.asarray(
    rng.standard_normal(kernel.shape), jnp.float32
  )
  return variables


def paths(variables):
  return {k: v.shape for k, v in traverse_util.flatten_dict(variables).items()}


@pytest.mark.parametrize("shape", [(2, 32, 32), (2, 3, 32, 32)])
@pytest.mark.parametrize("name", POOLINGS)
def test_logits_from_features(rng, name, shape):
  model = models.Classifier(BACKBONE, POOLINGS[name], num_classes=4)
  x = pictures(rng, *shape)
  variables = initialized(rng, model, x)
  features = model.apply(variables, x, method="features")
  assert features.shape == (*shape[:-2], 8, 8, 16)
  heads = {name: variables["params"].get(name, {}) for name in ("pooling", "head")}
  logits = model.apply({"params": heads}, features, method="from_features")
  np.testing.assert_allclose(logits, model.apply(variables, x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", POOLINGS)
def test_a_head_alone_has_the_parameters_of_the_whole(rng, name):
  model = models.Classifier(BACKBONE, POOLINGS[name], num_classes=4)
  x = pictures(rng, 2, 32, 32)
  whole = model.init(jax.random.key(0), x)
  features = model.apply(whole, x, method="features")
  alone = model.init(jax.random.key(0), features, method="from_features")
  of_heads = {k: v for k, v in paths(whole).items() if k[1] in ("pooling", "head")}
  assert paths(alone) == of_heads


def test_normalized_vectors_have_unit_length(rng):
  model = models.Classifier(
    BACKBONE, models.SecondOrderPooling(), num_classes=4, normalize=True
  )
  x = pictures(rng, 2, 32, 32)
  variables = initialized(rng, model, x)
  vectors = model.apply(variables, x, method="pooled")
  np.testing.assert_allclose(jnp.linalg.norm(vectors, axis=-1), 1, rtol=1e-5)
  as_they_are = model.clone(normalize=False).apply(variables, x, method="pooled")
  scale = jnp.linalg.norm(as_they_are, axis=-1, keepdims=True)
  np.testing.assert_allclose(vectors * scale, as_they_are, rtol=1e-5, atol=1e-7)
  kernel = variables["params"]["head"]["kernel"]
  np.testing.assert_allclose(
    model.apply(variables, x), vectors @ kernel, rtol=1e-3, atol=1e-5
  )


def test_init_of_millions_of_weights_draws_none_of_them():
  """At d' = 2058 the dense layer has 2.1 million weights a class."""
  model = models.Classifier(
    models.ResNet50(), models.SecondOrderPooling(num_pivots=5), num_classes=101
  )
  features = jax.ShapeDtypeStruct((1, 2, 2, 2048), jnp.float32)

  def init(features):
    return model.init(jax.random.key(0), features, method="from_features")

  kernel = jax.eval_shape(init, features)["params"]["head"]["kernel"]
  assert kernel.shape == (2058 * 2059 // 2, 101)
  names = {equation.primitive.name for equation in jaxprs.equations(init, features)}
  assert not {name for name in names if "random_bits" in name or "threefry" in name}


def test_a_backbone_of_somebody_else(rng):
  class Backbone(nn.Module):
    @nn.compact
    def __call__(self, x, train):
      del train
      return nn.Conv(6, (3, 3), strides=2)(x)

  model = models.Classifier(Backbone(), models.SecondOrderPooling(), num_classes=4)
  x = pictures(rng, 2, 16, 16)
  logits, _ = model.init_with_output(jax.random.key(0), x)
  assert logits.shape == (2, 4)
  with pytest.raises(ValueError, match="expected pictures"):
    model.init(jax.random.key(0), x[..., :1])
