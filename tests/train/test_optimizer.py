import jax
import jax.numpy as jnp
import numpy as np
import pytest

from experiments.configs import default
from pnjax.train import optimizer

RATE = 0.5


@pytest.fixture
def optim():
  """The fields of `config.optim`; plain SGD of a constant rate."""
  optim = default.get_config().optim
  optim.name = "sgd"
  return optim


def updates(optim, gradients, params):
  """What the optimizer adds to parameters for some gradients, one after the other."""
  transform = optimizer.make(optim, lambda step: RATE)
  state = transform.init(params)
  result = []
  for gradient in gradients:
    update, state = transform.update(gradient, state, params)
    result.append(update)
  return result


def one(value):
  return {"head.bias": jnp.array([value], jnp.float32)}


def test_rate_falls_at_the_borders_of_epochs(optim):
  schedule = optimizer.learning_rate(optim, steps_per_epoch=4, num_epochs=3)
  steps = [0, 3, 4, 7, 8, 11, 12, 1000]
  rates = [schedule(jnp.int32(step)) for step in steps]
  expected = [1e-4, 1e-4, 1e-5, 1e-5, 1e-6, 1e-6, 1e-6, 1e-6]
  np.testing.assert_allclose(rates, expected, rtol=1e-5)


def test_rate_of_a_single_epoch_is_the_first(optim):
  schedule = optimizer.learning_rate(optim, steps_per_epoch=4, num_epochs=1)
  np.testing.assert_allclose(schedule(jnp.int32(3)), 1e-4, rtol=1e-6)


@pytest.mark.parametrize("name", ["learning_rate", "final_learning_rate"])
def test_rate_has_to_be_positive(optim, name):
  optim[name] = 0.0
  with pytest.raises(ValueError, match=r"0\.0.*expected positive numbers"):
    optimizer.learning_rate(optim, 1, 1)


def test_rmsprop_by_hand(optim):
  optim.name = "rmsprop"
  params = one(1.0)
  first, second, zero = updates(optim, [one(2.0), one(-1.0), one(0.0)], params)
  # The average of squares is 0.01·2² = 0.04, and then 0.99·0.04 + 0.01·1² = 0.0496;
  # their weights add up to 0.01, and then to 0.0199.
  np.testing.assert_allclose(first["head.bias"], -RATE, rtol=1e-5)
  np.testing.assert_allclose(
    second["head.bias"], RATE / (0.0496 / 0.0199) ** 0.5, rtol=1e-5
  )
  np.testing.assert_array_equal(zero["head.bias"], 0)


def test_rmsprop_with_momentum_by_hand(optim):
  optim.name, optim.momentum = "rmsprop", 0.5
  _, second = updates(optim, [one(2.0), one(-1.0)], one(1.0))
  expected = -RATE * (-1 / (0.0496 / 0.0199) ** 0.5 + 0.5)
  np.testing.assert_allclose(second["head.bias"], expected, rtol=1e-5)


def test_rmsprop_of_a_gradient_that_was_always_zero_is_finite(optim):
  optim.name = "rmsprop"
  (update,) = updates(optim, [one(0.0)], one(1.0))
  np.testing.assert_array_equal(update["head.bias"], 0)


def test_sgd_with_momentum_by_hand(optim):
  optim.momentum = 0.9
  first, second = updates(optim, [one(2.0), one(-1.0)], one(1.0))
  np.testing.assert_allclose(first["head.bias"], -RATE * 2)
  np.testing.assert_allclose(second["head.bias"], -RATE * (-1 + 0.9 * 2), rtol=1e-6)


def test_adam_by_hand(optim):
  optim.name = "adam"
  with jax.numpy_dtype_promotion("standard"):  # Optax needs it.
    (first,) = updates(optim, [one(-2.0)], one(1.0))
  np.testing.assert_allclose(first["head.bias"], RATE, rtol=1e-5)


def test_the_norm_of_the_whole_gradient_is_clipped(optim):
  optim.clip_norm = 1.0
  gradient = {"backbone.a": jnp.full(1, 3.0), "head.b": jnp.full(1, 4.0)}
  tenth = jax.tree.map(lambda g: g / 10, gradient)
  long, short = updates(optim, [gradient, tenth], gradient)
  np.testing.assert_allclose(long["backbone.a"], -RATE * 0.6, rtol=1e-6)
  np.testing.assert_allclose(long["head.b"], -RATE * 0.8, rtol=1e-6)
  np.testing.assert_allclose(short["head.b"], -RATE * 0.4, rtol=1e-6)


def test_weight_decay_is_for_kernels_only(optim):
  optim.weight_decay = 0.1
  params = {"head.kernel": jnp.full((2, 3), 5.0), "head.bias": jnp.full(3, 5.0)}
  (update,) = updates(optim, [jax.tree.map(jnp.zeros_like, params)], params)
  np.testing.assert_allclose(update["head.kernel"], -RATE * 0.1 * 5, rtol=1e-6)
  np.testing.assert_array_equal(update["head.bias"], 0)


def test_the_head_may_learn_faster(optim):
  optim.head_multiplier = 10.0
  params = {
    name: jnp.zeros(1) for name in ("backbone.fc", "head.bias", "pooling.eta_prime")
  }
  (update,) = updates(optim, [jax.tree.map(jnp.ones_like, params)], params)
  rates = {name: -float(x[0]) / RATE for name, x in update.items()}
  assert rates == {"backbone.fc": 1, "head.bias": 10, "pooling.eta_prime": 10}


def test_a_classifier_with_a_rate_of_its_own_learns_by_sgd_with_momentum(optim):
  optim.name, optim.learning_rate, optim.classifier_rate = "rmsprop", RATE, 3.0
  optim.head_multiplier = 10.0
  params = {
    name: jnp.zeros(1) for name in ("backbone.fc", "head.kernel", "pooling.eta_prime")
  }
  gradients = [jax.tree.map(lambda p, g=g: p + g, params) for g in (2.0, -1.0)]
  first, second = updates(optim, gradients, params)
  np.testing.assert_allclose(first["head.kernel"], -3 * 2, rtol=1e-6)
  np.testing.assert_allclose(second["head.kernel"], -3 * (-1 + 0.9 * 2), rtol=1e-6)
  # The rest learns as before.
  np.testing.assert_allclose(first["backbone.fc"], -RATE, rtol=1e-5)
  np.testing.assert_allclose(first["pooling.eta_prime"], -10 * RATE, rtol=1e-5)


def test_the_rate_of_the_classifier_falls_with_the_other(optim):
  optim.learning_rate, optim.classifier_rate = 0.5, 3.0
  transform = optimizer.make(optim, lambda step: 0.5 * 0.1**step)
  params = one(0.0)
  state = transform.init(params)
  _, state = transform.update(one(0.0), state, params)
  update, _ = transform.update(one(1.0), state, params)
  np.testing.assert_allclose(update["head.bias"], -0.3, rtol=1e-6)


def test_the_rate_of_the_classifier_is_not_negative(optim):
  optim.classifier_rate = -1.0
  with pytest.raises(ValueError, match=r"classifier_rate is -1\.0, expected 0 or more"):
    optimizer.make(optim, lambda step: RATE)


def test_an_unknown_optimizer_lists_the_known_ones(optim):
  optim.name = "lion"
  with pytest.raises(ValueError, match="'lion', expected one of rmsprop, adam, sgd"):
    optimizer.make(optim, lambda step: RATE)
