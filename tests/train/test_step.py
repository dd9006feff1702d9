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
