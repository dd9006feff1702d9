import functools

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


def images(rng, *shape):
  return jnp.asarray(rng.standard_normal((*shape, 3)), jnp.float32)


@functools.cache
def backbone_variables():
  return jax.jit(BACKBONE.init)(jax.random.key(0), jnp.zeros((1, 32, 32, 3)))


def initialized(rng, model):
  """Returns variables of a model on `BACKBONE`, with a classifier that is not zero."""
  init = jax.jit(functools.partial(model.init, method="from_features"))
  params = init(jax.random.key(0), jnp.zeros((1, 8, 8, 16)))["params"]
  shape = params["classifier"]["kernel"].shape
  kernel = jnp.asarray(rng.standard_normal(shape), jnp.float32)
  backbone = backbone_variables()
  return {
    "params": {
      **params,
      "backbone": backbone["params"],
      "classifier": params["classifier"] | {"kernel": kernel},
    },
    "batch_stats": {"backbone": backbone["batch_stats"]},
  }


def shapes(variables):
  return {k: v.shape for k, v in traverse_util.flatten_dict(variables).items()}


@pytest.mark.parametrize(
  ("name", "shape"),
  [*((name, (2, 32, 32)) for name in POOLINGS), ("second order", (2, 3, 32, 32))],
)
def test_logits_from_features(rng, name, shape):
  model = models.ImageClassifier(BACKBONE, POOLINGS[name], num_classes=4)
  x = images(rng, *shape)
  variables = initialized(rng, model)

  @jax.jit
  def apply(variables, x):
    features = model.apply(variables, x, method="features")
    params = {k: v for k, v in variables["params"].items() if k != "backbone"}
    logits = model.apply({"params": params}, features, method="from_features")
    return features, logits, model.apply(variables, x)

  features, logits, expected = apply(variables, x)
  assert features.shape == (*shape[:-2], 8, 8, 16)
  np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", POOLINGS)
def test_init_from_features_creates_the_same_parameters(name):
  model = models.ImageClassifier(BACKBONE, POOLINGS[name], num_classes=4)
  init = functools.partial(model.init, jax.random.key(0))
  whole = jax.eval_shape(init, jnp.zeros((2, 32, 32, 3)))
  from_features = functools.partial(init, method="from_features")
  alone = jax.eval_shape(from_features, jnp.zeros((2, 8, 8, 16)))
  expected = {k: v for k, v in shapes(whole).items() if k[1] != "backbone"}
  assert shapes(alone) == expected


def test_gradients_reach_the_first_convolution(rng):
  model = models.ImageClassifier(BACKBONE, POOLINGS["low rank"], num_classes=3)
  x = images(rng, 2, 2, 32, 32)  # Two patches of each image.
  variables = initialized(rng, model)

  @jax.jit
  @jax.grad
  def gradients(params):
    logits = model.apply({**variables, "params": params}, x, train=True)
    return jnp.mean(jax.nn.log_softmax(logits)[:, 0])

  first = gradients(variables["params"])["backbone"]["conv1"]["kernel"]
  assert np.isfinite(first).all() and np.any(first != 0)


def test_normalized_vectors_have_unit_length(rng):
  model = models.ImageClassifier(
    BACKBONE, models.SecondOrderPooling(), num_classes=4, normalize=True
  )
  x = images(rng, 2, 32, 32)
  variables = initialized(rng, model)

  @jax.jit
  def apply(variables, x):
    unscaled = model.clone(normalize=False).apply(variables, x, method="pooled")
    vectors = model.apply(variables, x, method="pooled")
    return unscaled, vectors, model.apply(variables, x)

  unscaled, vectors, logits = apply(variables, x)
  np.testing.assert_allclose(np.linalg.norm(vectors, axis=-1), 1, rtol=1e-5)
  lengths = np.linalg.norm(unscaled, axis=-1, keepdims=True)
  np.testing.assert_allclose(vectors * lengths, unscaled, rtol=1e-5, atol=1e-7)
  kernel = variables["params"]["classifier"]["kernel"]
  np.testing.assert_allclose(logits, vectors @ kernel, rtol=1e-3, atol=1e-5)


def test_init_draws_no_random_numbers_for_the_classifier():
  """At d' = 2058 the classifier has 2.1 million weights per class."""
  model = models.ImageClassifier(
    models.ResNet50(), models.SecondOrderPooling(num_pivots=5), num_classes=101
  )
  features = jax.ShapeDtypeStruct((1, 2, 2, 2048), jnp.float32)

  def init(features):
    return model.init(jax.random.key(0), features, method="from_features")

  kernel = jax.eval_shape(init, features)["params"]["classifier"]["kernel"]
  assert kernel.shape == (2058 * 2059 // 2, 101)
  names = {equation.primitive.name for equation in jaxprs.equations(init, features)}
  assert not {name for name in names if "random_bits" in name or "threefry" in name}


class ThirdPartyBackbone(nn.Module):
  @nn.compact
  def __call__(self, x, train):
    del train
    return nn.Conv(6, (3, 3), strides=2)(x)


def test_third_party_backbone(rng):
  model = models.ImageClassifier(
    ThirdPartyBackbone(), models.SecondOrderPooling(), num_classes=4
  )
  x = images(rng, 2, 16, 16)
  logits, _ = jax.jit(model.init_with_output)(jax.random.key(0), x)
  assert logits.shape == (2, 4)
  with pytest.raises(ValueError, match="expected images"):
    model.init(jax.random.key(0), x[..., :1])


def test_entries_are_dropped_in_training_only(rng):
  model = models.ImageClassifier(
    BACKBONE, models.FirstOrderPooling(), num_classes=16, dropout=0.5
  )
  # The logits are the entries of the pooled vector.
  params = {"classifier": {"kernel": jnp.eye(16), "bias": jnp.zeros(16)}}
  vectors = jnp.asarray(rng.uniform(1, 2, (8, 16)), jnp.float32)

  def logits(seed, train=True):
    return model.apply(
      {"params": params},
      vectors,
      train,
      method="classify",
      rngs={"dropout": jax.random.key(seed)},
    )

  np.testing.assert_array_equal(logits(0, train=False), vectors)
  dropped = logits(0) == 0
  assert 0.3 < jnp.mean(dropped) < 0.7
  np.testing.assert_allclose(logits(0), jnp.where(dropped, 0, 2 * vectors))
  assert not jnp.array_equal(dropped, logits(1) == 0)
