import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import config as config_lib
from pnjax import train

RATE = 0.5


@pytest.fixture(autouse=True)
def standard_promotion():
  """Optax mixes Python numbers and integers; `train_step` allows it, too."""
  with jax.numpy_dtype_promotion("standard"):
    yield


@pytest.fixture
def config():
  """A config with plain SGD."""
  config = config_lib.get_config()
  config.optim.name = "sgd"
  return config


@pytest.fixture
def optim(config):
  return config.optim


def updates(config, gradients, params):
  """Returns the updates of parameters for consecutive gradients at a constant rate."""
  transform = train.make_optimizer(config, lambda step: RATE)
  state = transform.init(params)
  result = []
  for gradient in gradients:
    update, state = transform.update(gradient, state, params)
    result.append(update)
  return result


def one(value):
  return {"classifier.bias": jnp.array([value], jnp.float32)}


def test_the_rate_falls_at_the_start_of_epochs(optim):
  schedule = train.learning_rate(optim, steps_per_epoch=4, num_epochs=3)
  steps = [0, 3, 4, 7, 8, 11, 12, 1000]
  rates = [schedule(jnp.int32(step)) for step in steps]
  expected = [1e-4, 1e-4, 1e-5, 1e-5, 1e-6, 1e-6, 1e-6, 1e-6]
  np.testing.assert_allclose(rates, expected, rtol=1e-5)


def test_a_single_epoch_has_the_first_rate(optim):
  schedule = train.learning_rate(optim, steps_per_epoch=4, num_epochs=1)
  np.testing.assert_allclose(schedule(jnp.int32(3)), 1e-4, rtol=1e-6)


@pytest.mark.parametrize("name", ["learning_rate", "final_learning_rate"])
def test_rates_have_to_be_positive(optim, name):
  optim[name] = 0.0
  with pytest.raises(ValueError, match=rf"{name} is 0\.0, expected .*more than 0"):
    train.learning_rate(optim, 1, 1)


def test_rmsprop_by_hand(config, optim):
  optim.name = "rmsprop"
  params = one(1.0)
  first, second, zero = updates(config, [one(2.0), one(-1.0), one(0.0)], params)
  # The average of squares is 0.01·2² = 0.04, and then 0.99·0.04 + 0.01·1² = 0.0496;
  # its weights sum to 0.01, and then to 0.0199.
  np.testing.assert_allclose(first["classifier.bias"], -RATE, rtol=1e-5)
  np.testing.assert_allclose(
    second["classifier.bias"], RATE / (0.0496 / 0.0199) ** 0.5, rtol=1e-5
  )
  np.testing.assert_array_equal(zero["classifier.bias"], 0)


def test_rmsprop_with_momentum_by_hand(config, optim):
  optim.name, optim.momentum = "rmsprop", 0.5
  _, second = updates(config, [one(2.0), one(-1.0)], one(1.0))
  expected = -RATE * (-1 / (0.0496 / 0.0199) ** 0.5 + 0.5)
  np.testing.assert_allclose(second["classifier.bias"], expected, rtol=1e-5)


def test_rmsprop_of_a_gradient_that_was_always_zero_is_finite(config, optim):
  optim.name = "rmsprop"
  (update,) = updates(config, [one(0.0)], one(1.0))
  np.testing.assert_array_equal(update["classifier.bias"], 0)


def test_sgd_with_momentum_by_hand(config, optim):
  optim.momentum = 0.9
  first, second = updates(config, [one(2.0), one(-1.0)], one(1.0))
  np.testing.assert_allclose(first["classifier.bias"], -RATE * 2)
  np.testing.assert_allclose(
    second["classifier.bias"], -RATE * (-1 + 0.9 * 2), rtol=1e-6
  )


def test_adam_by_hand(config, optim):
  optim.name = "adam"
  (first,) = updates(config, [one(-2.0)], one(1.0))
  np.testing.assert_allclose(first["classifier.bias"], RATE, rtol=1e-5)


def test_the_norm_of_the_whole_gradient_is_clipped(config, optim):
  optim.clip_norm = 1.0
  gradient = {"backbone.a": jnp.full(1, 3.0), "classifier.b": jnp.full(1, 4.0)}
  tenth = jax.tree.map(lambda g: g / 10, gradient)
  long, short = updates(config, [gradient, tenth], gradient)
  np.testing.assert_allclose(long["backbone.a"], -RATE * 0.6, rtol=1e-6)
  np.testing.assert_allclose(long["classifier.b"], -RATE * 0.8, rtol=1e-6)
  np.testing.assert_allclose(short["classifier.b"], -RATE * 0.4, rtol=1e-6)


@pytest.mark.parametrize(
  ("group", "decayed"),
  [
    ("optim", {"backbone.kernel", "pooling.kernel"}),
    ("classifier", {"classifier.kernel"}),
  ],
)
def test_weight_decay_is_for_the_kernels_of_its_parts(config, group, decayed):
  config[group].weight_decay = 0.1
  params = {
    f"{part}.{name}": jnp.full(shape, 5.0)
    for part in ("backbone", "pooling", "classifier")
    for name, shape in (("kernel", (2, 3)), ("bias", (3,)))
  }
  (update,) = updates(config, [jax.tree.map(jnp.zeros_like, params)], params)
  for path, x in update.items():
    expected = -RATE * 0.1 * 5 if path in decayed else 0
    np.testing.assert_allclose(x, expected, rtol=1e-6, err_msg=path)


def test_one_rate_is_for_all_parts(config):
  parts = ("backbone.fc", "classifier.kernel", "pooling.log_eta_prime")
  params = {name: jnp.zeros(1) for name in parts}
  (update,) = updates(config, [jax.tree.map(jnp.ones_like, params)], params)
  assert {name: -float(x[0]) / RATE for name, x in update.items()} == dict.fromkeys(
    parts, 1
  )


@pytest.mark.parametrize("steps_per_epoch", [1, 41, 47, 55, 61])
def test_compiled_rates_fall_at_the_right_step(optim, steps_per_epoch):
  # A division by these numbers of steps is rounded down in compiled programs.
  schedule = train.learning_rate(optim, steps_per_epoch, num_epochs=12)
  steps = jnp.arange(12 * steps_per_epoch, dtype=jnp.int32)
  rates = jax.jit(jax.vmap(schedule))(steps)
  expected = 1e-4 * 0.01 ** (np.arange(len(steps)) // steps_per_epoch / 11)
  np.testing.assert_allclose(rates, expected, rtol=1e-5)


def test_an_unknown_optimizer_lists_the_known_ones(config, optim):
  optim.name = "lion"
  with pytest.raises(ValueError, match="'lion', expected one of rmsprop, adam, sgd"):
    train.make_optimizer(config, lambda step: RATE)
