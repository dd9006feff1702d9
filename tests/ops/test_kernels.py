import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import ops
from tests.ops import families


def test_pivots_of_the_paper(x64):
  np.testing.assert_allclose(
    ops.equally_spaced_pivots(8), np.arange(8) * 1.4 / 7 - 0.2, atol=1e-15
  )


def test_feature_map_by_hand(x64):
  pivots = jnp.array([0.0, 1.0])
  got = ops.gaussian_feature_map(jnp.array([0.0, 0.5]), pivots, 0.5)
  # exp(−(x − ζ)² / (2 (σ/√2)²))
  want = np.exp([[-0.0 / 0.25, -1.0 / 0.25], [-0.25 / 0.25, -0.25 / 0.25]])
  np.testing.assert_allclose(got, want, rtol=1e-14)


def test_feature_map_takes_any_shape():
  pivots = ops.equally_spaced_pivots(5)
  assert ops.gaussian_feature_map(0.3, pivots, 0.2).shape == (5,)
  assert ops.gaussian_feature_map(jnp.ones((2, 3)), pivots, 0.2).shape == (2, 3, 5)


@functools.partial(jax.jit, static_argnums=0)
def linearization_error(num_pivots, sigma):
  pivots = ops.equally_spaced_pivots(num_pivots)
  x = jnp.linspace(0, 1, 41)
  phi = ops.gaussian_feature_map(x, pivots, sigma)
  phi = jnp.sqrt(ops.gaussian_kernel_constant(pivots, sigma)) * phi
  kernel = jnp.exp(-jnp.square(x[:, None] - x[None, :]) / (2 * sigma**2))
  return jnp.max(jnp.abs(phi @ phi.T - kernel))


def test_prop_1_error_falls_with_the_number_of_pivots(x64):
  errors = [linearization_error(z, sigma=0.1) for z in (5, 8, 12, 16, 24)]
  assert all(b < a for a, b in itertools.pairwise(map(float, errors)))
  assert errors[0] > 0.1
  assert errors[-1] < 1e-4


spatial_coordinates = jax.jit(ops.spatial_coordinates, static_argnums=(0, 1, 2))


def test_order_and_values_of_coordinates(x64):
  height, width, num_pivots, sigma, alpha = 3, 4, 5, 0.3, 0.7
  coords = np.asarray(spatial_coordinates(height, width, num_pivots, sigma, alpha))
  assert coords.shape == (12, 10)
  pivots = np.linspace(-0.2, 1.2, num_pivots)
  for y in range(height):
    for x in range(width):
      row = coords[y * width + x]
      for part, c in ((row[:5], x / (width - 1)), (row[5:], y / (height - 1))):
        np.testing.assert_allclose(
          part, alpha * np.exp(-(((c - pivots) / sigma) ** 2)), rtol=1e-12
        )


@pytest.mark.parametrize("height,width", [(1, 1), (1, 4), (4, 1)])
def test_coordinate_is_zero_along_a_side_of_length_one(height, width):
  coords = spatial_coordinates(height, width, 3, 0.3, 1.0)
  assert coords.shape == (height * width, 6)
  assert np.all(np.isfinite(coords))
  zero = np.exp(-((np.array([-0.2, 0.5, 1.2]) / 0.3) ** 2))
  for side, part in ((width, coords[:, :3]), (height, coords[:, 3:])):
    if side == 1:
      want = np.broadcast_to(zero, part.shape)
      np.testing.assert_allclose(part, want, rtol=1e-4, atol=1e-6)


def test_gradients(x64):
  pivots = ops.equally_spaced_pivots(4)
  families.check_second_derivatives(
    lambda x, s: ops.gaussian_feature_map(x, pivots, s), (jnp.array([0.1, 0.8]), 0.4)
  )
  families.check_second_derivatives(
    lambda s: ops.gaussian_kernel_constant(pivots, s), (0.4,)
  )
  families.check_second_derivatives(
    lambda s, a: ops.spatial_coordinates(3, 2, 4, s, a), (0.4, 1.3)
  )


def test_alpha_is_trainable_under_jit():
  grad = jax.jit(jax.grad(lambda a: ops.spatial_coordinates(3, 3, 4, 0.3, a).sum()))
  want = np.sum(spatial_coordinates(3, 3, 4, 0.3, 1.0))
  np.testing.assert_allclose(grad(2.0), want, rtol=1e-5)


@pytest.mark.parametrize(
  "call,error,match",
  [
    (lambda: ops.equally_spaced_pivots(1), ValueError, "num_pivots.*1.*at least 2"),
    (lambda: ops.equally_spaced_pivots(2.5), TypeError, "num_pivots.*2.5"),
    (lambda: ops.equally_spaced_pivots(3, 1.0, 0.0), ValueError, "low < high"),
    (
      lambda: ops.gaussian_feature_map(jnp.arange(3), jnp.ones(2), 0.1),
      TypeError,
      "int32.*floating",
    ),
    (
      lambda: ops.gaussian_feature_map(0.5, jnp.ones((2, 2)), 0.1),
      ValueError,
      r"pivots.*\(2, 2\)",
    ),
    (
      lambda: ops.gaussian_feature_map(0.5, jnp.ones(2), 0.0),
      ValueError,
      "sigma.*> 0",
    ),
    (lambda: ops.spatial_coordinates(0, 3, 3, 0.1, 1.0), ValueError, "height"),
    (lambda: ops.spatial_coordinates(3, 3, 1, 0.1, 1.0), ValueError, "num_pivots"),
  ],
)
def test_bad_input(call, error, match):
  with pytest.raises(error, match=match):
    call()
