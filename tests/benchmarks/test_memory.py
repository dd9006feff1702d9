import functools

import jax
import jax.numpy as jnp
import pytest

from benchmarks import memory
from pnjax import models

BACKBONE = models.ResNet(stage_sizes=(1,), width=4, dtype=jnp.bfloat16)
DENSE = models.Classifier(BACKBONE, models.SecondOrderPooling(), num_classes=3)


def test_count():
  counted = memory.count(DENSE, batch=2, size=32)
  params, *_ = memory.arguments(DENSE, 2, 32)
  num_params = sum(p.size for p in jax.tree.leaves(params))
  for what in ("parameters", "gradients", "state of RMSprop"):
    assert counted[what] == 4 * num_params
  assert counted["pictures"] == 4 * 2 * 32 * 32 * 3
  # The output of each convolution is the input of the next, in bfloat16.
  num_activations = 2 * (16 * 16 * 4 + 8 * 8 * (4 + 4 + 4))
  assert counted["kept for the backward pass"] >= 2 * num_activations


def test_activations_grow_with_the_batch_and_parameters_do_not():
  small, large = (memory.count(DENSE, batch, size=32) for batch in (2, 200))
  assert small["parameters"] == large["parameters"]
  kept = "kept for the backward pass"
  assert 50 * small[kept] <= large[kept] <= 100 * small[kept]


@pytest.mark.slow
def test_the_step_that_is_measured_trains():
  shapes = memory.arguments(DENSE, 2, 32)[3:]
  images = jax.random.normal(jax.random.key(0), shapes[0].shape)
  labels = jnp.arange(2, dtype=shapes[1].dtype)
  variables = DENSE.init(jax.random.key(0), images)
  params, batch_stats = variables["params"], variables["batch_stats"]
  squares = jax.tree.map(jnp.zeros_like, params)
  step = jax.jit(functools.partial(memory.training_step, DENSE))
  before = memory.loss(DENSE, params, batch_stats, images, labels)
  for _ in range(3):
    params, squares = step(params, squares, batch_stats, images, labels)
  assert memory.loss(DENSE, params, batch_stats, images, labels) < before
