import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from pnjax import ops
from tests.ops import families


def test_signed_sqrt():
  x = jnp.array([-4.0, 0.0, 9.0])
  np.testing.assert_array_equal(ops.signed_sqrt(x), [-2.0, 0.0, 3.0])
  grad = jax.grad(lambda x: jnp.sum(ops.signed_sqrt(x)))(x)
  np.testing.assert_allclose(grad, [0.25, 0.0, 1 / 6], rtol=1e-6)


def test_l2_normalize():
  x = jnp.array([[3.0, 4.0], [0.0, 0.0], [1e-30, 0.0]])
  want = [[0.6, 0.8], [0.0, 0.0], [1.0, 0.0]]
  np.testing.assert_allclose(ops.l2_normalize(x), want, rtol=1e-6)
  np.testing.assert_allclose(
    jnp.linalg.norm(ops.l2_normalize(x, axis=(0, 1))), 1.0, rtol=1e-6
  )
  # The derivative of Σ x/‖x‖ is (1 − (Σ x/‖x‖) x/‖x‖) / ‖x‖.
  grad = jax.jit(jax.grad(lambda x: ops.l2_normalize(x).sum()))(x)
  want = [[0.16 / 5, -0.12 / 5], [0.0, 0.0], [0.0, 1e30]]
  np.testing.assert_allclose(grad, want, rtol=1e-5, atol=1e-7)


def test_matrix_log(x64, rng):
  m, _ = families.matrix_with_spectrum(rng, [0.1, 0.1, 2.0, 5.0])
  want = scipy.linalg.logm(m + 0.01 * np.eye(4))
  np.testing.assert_allclose(ops.matrix_log(m, 0.01), want, atol=1e-12)
  families.check_gradients(ops.matrix_log, (m, 0.01))
  singular, _ = families.matrix_with_spectrum(rng, [0.0, 0.0, 2.0, 5.0])
  families.check_gradients(ops.matrix_log, (singular, 0.1))


def test_newton_schulz_converges_to_the_square_root(x64, rng):
  m, _ = families.matrix_with_spectrum(rng, [0.5, 0.7, 2.0, 5.0])
  want = ops.spectral_gamma(m, 0.5)
  newton_schulz_sqrt = jax.jit(ops.newton_schulz_sqrt, static_argnums=1)
  errors = [np.max(np.abs(newton_schulz_sqrt(m, n) - want)) for n in (3, 5, 8)]
  assert errors[0] > errors[1] > errors[2]
  assert errors[2] < 1e-8
  families.check_gradients(newton_schulz_sqrt, (m,), ("fwd", "rev"))


@pytest.mark.parametrize("degree", [1, 5])
def test_pade_sqrt_is_the_function_of_its_docstring(x64, rng, degree):
  spectrum = np.array([1e-4, 0.3, 2.0, 5.0])
  m, vectors = families.matrix_with_spectrum(rng, spectrum)
  norm = np.linalg.norm(spectrum)
  root = np.sqrt(spectrum / norm)
  root = root / np.tanh((2 * degree + 1) * np.arctanh(root))
  want = np.sqrt(norm) * (vectors * root) @ vectors.T
  np.testing.assert_allclose(ops.pade_sqrt(m, degree), want, atol=1e-12)


def test_pade_sqrt_converges_with_its_derivative(x64, rng):
  m, _ = families.matrix_with_spectrum(rng, [2.0, 3.0, 4.0, 5.0])
  want = ops.spectral_gamma(m, 0.5)
  pade_sqrt = jax.jit(ops.pade_sqrt, static_argnums=(1, 2))
  np.testing.assert_allclose(pade_sqrt(m, 10, 8), want, atol=1e-9)
  families.check_gradients(lambda m: pade_sqrt(m, 10, 8), (m,), ("fwd", "rev"))


def test_pade_sqrt_of_zero(rng):
  zero = jnp.zeros((3, 3))
  value, gradient = jax.value_and_grad(lambda m: ops.pade_sqrt(m).sum())(zero)
  assert value == 0
  assert np.all(np.isfinite(gradient))


def test_gradients(x64, rng):
  x = rng.normal(size=(3, 4))
  families.check_gradients(jax.jit(ops.signed_sqrt), (x,), ("fwd", "rev"))
  families.check_gradients(jax.jit(ops.l2_normalize), (x,), ("fwd", "rev"))


@pytest.mark.parametrize(
  "call,error,match",
  [
    (lambda: ops.signed_sqrt(jnp.arange(3)), TypeError, "int32"),
    (lambda: ops.matrix_log(jnp.eye(3), -1.0), ValueError, "lam"),
    (lambda: ops.newton_schulz_sqrt(jnp.eye(3), 0), ValueError, "iterations"),
    (lambda: ops.newton_schulz_sqrt(jnp.ones((2, 3))), ValueError, "square"),
    (lambda: ops.pade_sqrt(jnp.eye(3), 0), ValueError, "degree"),
    (lambda: ops.pade_sqrt(jnp.eye(3), 5, 0), ValueError, "iterations"),
  ],
)
def test_bad_input(call, error, match):
  with pytest.raises(error, match=match):
    call()
