"""What all backbones share."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import models

IMAGES = jnp.asarray(np.random.default_rng(0).normal(size=(2, 64, 64, 3)), jnp.float32)
BACKBONES = {
  "tiny_resnet": models.TinyResNet(batch_statistics=True),
  "alexnet": models.AlexNet(),
  "vit": models.ViT(patch_size=8, width=32, depth=3, num_heads=2, grid=4),
}


def loss(backbone, variables):
  features, updated = backbone.apply(
    variables, IMAGES, train=True, mutable=["batch_stats"]
  )
  # Layer norm fixes the sum of all squares, but not that of the positive ones.
  return jnp.sum(jnp.square(jax.nn.relu(features))), updated


def kept_bytes(backbone, variables):
  """Bytes that the forward pass keeps for the backward pass, besides variables."""
  _, pull_back, _ = jax.eval_shape(
    lambda v: jax.vjp(functools.partial(loss, backbone), v, has_aux=True), variables
  )
  kept, known = (
    sum(x.size * x.dtype.itemsize for x in jax.tree.leaves(tree))
    for tree in (pull_back, variables)
  )
  return kept - known


@pytest.mark.parametrize("name", BACKBONES)
def test_remat_keeps_less_and_changes_nothing_else(name):
  backbone = BACKBONES[name]
  recomputing = backbone.clone(remat=True)
  variables = jax.jit(backbone.init)(jax.random.key(0), IMAGES)
  shapes = jax.eval_shape(recomputing.init, jax.random.key(0), IMAGES)
  assert jax.tree.structure(shapes) == jax.tree.structure(variables)
  assert kept_bytes(recomputing, variables) < 0.9 * kept_bytes(backbone, variables)

  results = [
    jax.jit(jax.value_and_grad(functools.partial(loss, model), has_aux=True))(variables)
    for model in (backbone, recomputing)
  ]
  for expected, actual in zip(*map(jax.tree.leaves, results), strict=True):
    scale = max(1, np.max(np.abs(expected)))
    np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-5 * scale)
