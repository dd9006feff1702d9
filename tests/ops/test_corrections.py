import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import ops
from tests.ops import families


def test_by_hand(x64):
  m = np.array([[3.0, 1.0], [1.0, 5.0]])
  psi = np.array([[0.5, 0.1], [0.1, 0.7]])
  np.testing.assert_allclose(
    ops.trace_compensate(psi, m, 0.5, lam=1.0), psi * 3.0, rtol=1e-15
  )
  np.testing.assert_allclose(ops.add_residual(psi, m, 0.1), psi + 0.1 * m, rtol=1e-15)


def test_compensation_inverts_trace_normalization(x64, rng):
  m = ops.cooccurrence(rng.normal(size=(2, 5, 3)))
  normalized = ops.maxexp(m, 1.0)  # M/(tr M + λ).
  np.testing.assert_allclose(ops.trace_compensate(normalized, m, 1.0), m, rtol=1e-12)


def test_gradients(x64, rng):
  m = ops.cooccurrence(rng.normal(size=(2, 5, 3)))
  psi = ops.sigme(m, 3.0)
  modes = ("fwd", "rev")
  families.check_gradients(jax.jit(ops.trace_compensate), (psi, m, 0.4), modes)
  families.check_gradients(jax.jit(ops.add_residual), (psi, m, 0.4), modes)


def test_different_shapes_are_refused():
  with pytest.raises(ValueError, match=r"\(2, 2\).*\(3, 3\).*same"):
    ops.add_residual(jnp.ones((2, 2)), jnp.ones((3, 3)), 1.0)
