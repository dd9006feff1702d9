import jax
import numpy as np
import optax
import pytest

from pnjax import models
from pnjax import train
from tests import jaxprs


@pytest.mark.parametrize(("num_microbatches", "has_loop"), [(1, False), (2, True)])
def test_only_microbatches_are_a_loop(num_microbatches, has_loop):
  model = models.ImageClassifier(models.TinyResNet(), models.FirstOrderPooling(), 3)
  images = np.zeros((2, 32, 32, 3), np.uint8)
  variables = model.init(jax.random.key(0), images.astype(np.float32))
  task = train.Task(
    model=model,
    preprocess=lambda x: x.astype(np.float32),
    optimizer=optax.sgd(0.1),
    num_microbatches=num_microbatches,
  )
  is_trainable = dict.fromkeys(train.parameter_paths(variables), True)
  state = train.create_state(variables, is_trainable, task.optimizer, seed=0)
  batch = {
    "image": images,
    "label": np.zeros(2, np.int32),
    "mask": np.ones(2, bool),
  }
  equations = jaxprs.equations(
    lambda state, batch: train.train_step(task, state, batch, lambda x: x),
    state,
    batch,
  )
  names = {equation.primitive.name for equation in equations}
  assert bool(names & {"scan", "while"}) == has_loop


# Examples that are equal have equal gradients, unless other entries are dropped.
def test_devices_drop_different_entries():
  model = models.ImageClassifier(
    models.TinyResNet(), models.FirstOrderPooling(), 3, dropout=0.5
  )
  images = np.full((4, 32, 32, 3), 100, np.uint8)
  variables = model.init(jax.random.key(0), images.astype(np.float32))
  task = train.Task(
    model=model,
    preprocess=lambda x: x.astype(np.float32),
    optimizer=optax.sgd(0.1),
  )
  is_trainable = dict.fromkeys(train.parameter_paths(variables), True)
  state = train.create_state(variables, is_trainable, task.optimizer, seed=0)

  def kernel(positions):
    batch = {
      "image": images[: len(positions)],
      "label": np.zeros(len(positions), np.int32),
      "mask": np.ones(len(positions), bool),
      "position": np.array(positions, np.int32),
    }
    after, _ = jax.jit(lambda s, b: train.train_step(task, s, b, lambda x: x))(
      state, batch
    )
    return np.asarray(after.trainable["classifier.kernel"])

  np.testing.assert_array_equal(kernel([0, 1]), kernel([0, 1]))
  assert np.any(kernel([0, 1]) != kernel([2, 3]))
