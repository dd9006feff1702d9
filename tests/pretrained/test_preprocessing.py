import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import pretrained

RED = np.array([255, 0, 0], np.uint8).reshape(1, 1, 1, 3)


@pytest.mark.parametrize(
  "recipe, expected",
  [
    (
      "alexnet_torchvision",
      [(1 - 0.485) / 0.229, -0.456 / 0.224, -0.406 / 0.225],
    ),
    ("resnet50_v1_caffe", [-103.939, -116.779, 255 - 123.68]),
  ],
)
def test_order_divisor_mean_and_std(recipe, expected):
  actual = pretrained.RECIPES[recipe].preprocessing(RED)
  assert actual.shape == (1, 1, 1, 3)
  assert actual.dtype == jnp.float32
  np.testing.assert_allclose(actual[0, 0, 0], expected, rtol=1e-6)


def test_pretrained_preprocesses_by_its_recipe(rng, weights):
  images = rng.integers(0, 256, (2, 3, 4, 3), np.uint8)
  np.testing.assert_array_equal(
    weights.preprocess(images), weights.recipe.preprocessing(images)
  )


def test_centered_maps_pixels_to_minus_one_to_one(rng):
  images = rng.integers(0, 256, (2, 3, 4, 3), np.uint8)
  images[0, 0, 0] = [0, 255, 51]
  actual = jax.jit(pretrained.CENTERED)(images)
  np.testing.assert_allclose(actual[0, 0, 0], [-1, 1, -0.6], rtol=1e-6)
  np.testing.assert_allclose(actual, images / 127.5 - 1, atol=1e-6)


@pytest.mark.parametrize(
  "images",
  [
    np.zeros((8, 8, 3), np.uint8),
    np.zeros((1, 8, 8, 4), np.uint8),
    np.zeros((1, 8, 8, 3), np.float32),
  ],
)
def test_only_batches_of_uint8_are_accepted(images):
  with pytest.raises(ValueError, match=r"expected uint8 RGB \[B, H, W, 3\]; pass a si"):
    pretrained.CENTERED(images)
