import jax
import numpy as np
import optax
import pytest

from pnjax import models
from pnjax.train import state as state_lib
from pnjax.train import step as step_lib
from tests import jaxprs


@pytest.mark.parametrize(("accumulate", "has_loop"), [(1, False), (2, True)])
def test_only_a_batch_in_parts_is_a_loop(accumulate, has_loop):
  model = models.Classifier(models.TinyResNet(), models.FirstOrderPooling(), 3)
  images = np.zeros((2, 32, 32, 3), np.uint8)
  variables = model.init(jax.random.key(0), images.astype(np.float32))
  task = step_lib.Task(
    model=model,
    preprocess=lambda x: x.astype(np.float32),
    optimizer=optax.sgd(0.1),
    num_classes=3,
    accumulate=accumulate,
  )
  learns = dict.fromkeys(state_lib.paths(variables), True)
  state = state_lib.create(variables, learns, task.optimizer, seed=0)
  batch = {
    "image": images,
    "label": np.zeros(2, np.int32),
    "mask": np.ones(2, bool),
  }
  equations = jaxprs.equations(
    lambda state, batch: step_lib.train_step(task, state, batch, lambda x: x),
    state,
    batch,
  )
  names = {equation.primitive.name for equation in equations}
  assert bool(names & {"scan", "while"}) == has_loop
