import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import ops
from tests.ops import families


def test_cooccurrence_by_hand():
  phi = jnp.array([[1.0, 2.0], [3.0, 0.0]])
  np.testing.assert_array_equal(ops.cooccurrence(phi), [[5.0, 1.0], [1.0, 2.0]])


def test_cooccurrence_is_symmetric_and_batched(rng):
  phi = rng.normal(size=(2, 3, 5, 7)).astype(np.float32)
  m = ops.cooccurrence(phi)
  np.testing.assert_allclose(m, m.mT, rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(m, phi.mT @ phi / 5, rtol=1e-5, atol=1e-6)


def test_beta_center(x64, rng):
  phi = rng.normal(size=(2, 5, 3))
  np.testing.assert_array_equal(ops.beta_center(phi, 0.0), phi)
  centered = ops.beta_center(phi, 1.0)
  np.testing.assert_allclose(np.mean(centered, axis=1), 0, atol=1e-15)
  half = ops.beta_center(phi, 0.5)
  np.testing.assert_allclose(np.mean(half, axis=1), phi.mean(axis=1) / 2, rtol=1e-12)


def test_append_coordinates_broadcasts(rng):
  phi = rng.normal(size=(2, 3, 4, 5)).astype(np.float32)
  coords = rng.normal(size=(4, 6)).astype(np.float32)
  both = ops.append_coordinates(phi, coords)
  assert both.shape == (2, 3, 4, 11)
  np.testing.assert_array_equal(both[..., :5], phi)
  np.testing.assert_array_equal(both[..., 5:], np.broadcast_to(coords, (2, 3, 4, 6)))
  per_patch = rng.normal(size=(3, 4, 6)).astype(np.float32)
  both = ops.append_coordinates(phi, per_patch)
  np.testing.assert_array_equal(both[..., 5:], np.broadcast_to(per_patch, (2, 3, 4, 6)))


tensor_feature_map = jax.jit(ops.tensor_feature_map, static_argnums=1)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_prop_2_tensors_linearise_polynomial_kernels(x64, rng, order):
  a, b = rng.normal(size=(2, 6, 4))
  psi_a, psi_b = tensor_feature_map(a, order), tensor_feature_map(b, order)
  assert psi_a.shape == (4,) * order
  want = np.mean((a @ b.T) ** order)
  np.testing.assert_allclose(np.vdot(psi_a, psi_b), want, rtol=1e-12)


def test_tensors_of_order_one_and_two(rng):
  phi = rng.normal(size=(3, 6, 4)).astype(np.float32)
  np.testing.assert_allclose(
    tensor_feature_map(phi, 1), phi.mean(axis=1), rtol=1e-5, atol=1e-6
  )
  np.testing.assert_allclose(
    tensor_feature_map(phi, 2), ops.cooccurrence(phi), rtol=1e-5, atol=1e-6
  )


def test_tensor_is_super_symmetric(x64, rng):
  psi = np.asarray(tensor_feature_map(rng.normal(size=(5, 3)), 3))
  for axes in itertools.permutations(range(3)):
    np.testing.assert_allclose(psi, psi.transpose(axes), rtol=1e-12)


def test_gradients(x64, rng):
  phi = rng.normal(size=(2, 5, 3))
  families.check_second_derivatives(ops.beta_center, (phi, 0.3))
  families.check_second_derivatives(ops.append_coordinates, (phi, phi[0, :, :2]))
  families.check_second_derivatives(ops.cooccurrence, (phi,))
  families.check_second_derivatives(lambda x: ops.tensor_feature_map(x, 3), (phi,))


def test_eq_17_derivative_with_coordinate_blocks(x64, rng):
  """The paper's ∂(N·M)/∂φ_m'n', including the coordinate blocks."""
  phi, coords = rng.normal(size=(4, 3)), rng.normal(size=(4, 2))

  def summed(phi):
    return 4 * ops.cooccurrence(ops.append_coordinates(phi, coords))

  jacobian = jax.jit(jax.jacobian(summed))(phi)  # [5, 5, n', m']
  for n, m in itertools.product(range(4), range(3)):
    unit = np.eye(3)[m]
    want = np.zeros((5, 5))
    want[:3, :3] = np.outer(unit, phi[n]) + np.outer(phi[n], unit)
    want[:3, 3:] = np.outer(unit, coords[n])
    want[3:, :3] = np.outer(coords[n], unit)
    np.testing.assert_allclose(jacobian[..., n, m], want, atol=1e-14)


def test_eq_18_derivative_of_average_pooling(x64, rng):
  phi, g = rng.normal(size=(4, 3)), rng.normal(size=(3, 3))
  grad = jax.jit(jax.grad(lambda p: jnp.sum(ops.cooccurrence(p) * g)))(phi)
  np.testing.assert_allclose(grad, 2 / 4 * phi @ (g + g.T) / 2, rtol=1e-12)


@pytest.mark.parametrize(
  "call,error,match",
  [
    (lambda: ops.cooccurrence(jnp.ones(3)), ValueError, r"\(3,\).*\[..., N, d\]"),
    (lambda: ops.cooccurrence(jnp.ones((0, 3))), ValueError, "N >= 1"),
    (lambda: ops.cooccurrence(jnp.ones((3, 0))), ValueError, "d >= 1"),
    (lambda: ops.cooccurrence(jnp.ones((2, 3), int)), TypeError, "int32.*astype"),
    (lambda: ops.cooccurrence(jnp.ones((2, 3), complex)), TypeError, "complex64"),
    (lambda: ops.beta_center(jnp.ones((2, 3)), 1.5), ValueError, "1.5.*<= 1"),
    (lambda: ops.beta_center(jnp.ones((2, 3)), -0.1), ValueError, "-0.1.*>= 0"),
    (lambda: ops.beta_center(jnp.ones((2, 3)), float("nan")), ValueError, "nan"),
    (
      lambda: ops.beta_center(jnp.ones((2, 3)), jnp.float32(2)),
      ValueError,
      "beta.*2",
    ),
    (lambda: ops.beta_center(jnp.ones((2, 3)), jnp.ones(3)), ValueError, "scalar"),
    (
      lambda: ops.append_coordinates(jnp.ones((4, 3)), jnp.ones((5, 2))),
      ValueError,
      r"\(5, 2\).*\[4, k\]",
    ),
    (
      lambda: ops.append_coordinates(jnp.ones((4, 3)), jnp.ones((2, 4, 2))),
      ValueError,
      r"\(2, 4, 2\)",
    ),
    (lambda: ops.tensor_feature_map(jnp.ones((2, 3)), 0), ValueError, "order"),
  ],
)
def test_bad_input(call, error, match):
  with pytest.raises(error, match=match):
    call()
