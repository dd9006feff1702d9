import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import ops
from pnjax.ops import _triangle
from tests import platforms
from tests.ops import families


def test_is_an_invertible_isometry(x64, rng):
  m = rng.normal(size=(2, 3, 6, 6))
  m = m + m.mT
  v = np.asarray(jax.jit(ops.triu_vectorize)(m))
  assert v.shape == (2, 3, 21)
  np.testing.assert_allclose(
    np.sum(v[0] * v[1], axis=-1), np.sum(m[0] * m[1], axis=(-2, -1)), rtol=1e-12
  )
  np.testing.assert_allclose(jax.jit(ops.triu_unvectorize)(v), m, rtol=1e-14)


def test_has_the_order_of_triu_indices(x64):
  m = np.arange(9.0).reshape(3, 3)
  m = m + m.T
  rows, columns = np.triu_indices(3)
  want = m[rows, columns] * np.where(rows == columns, 1, np.sqrt(2))
  np.testing.assert_allclose(ops.triu_vectorize(m), want, rtol=1e-15)


def test_gradients(x64, rng):
  m = ops.cooccurrence(rng.normal(size=(2, 5, 3)))
  families.check_second_derivatives(ops.triu_vectorize, (m,))
  families.check_second_derivatives(ops.triu_unvectorize, (ops.triu_vectorize(m),))


@pytest.mark.parametrize("shape", [(1, 1), (4, 4), (2, 3, 5, 5)])
def test_rows_give_the_same_as_entries(rng, shape):
  """The ways of a TPU and of other devices."""
  m = jnp.asarray(rng.normal(size=shape), jnp.float32)
  v = jax.jit(_triangle.pack_by_rows)(m)
  np.testing.assert_array_equal(v, m[(..., *np.triu_indices(shape[-1]))])
  unpack = jax.jit(_triangle.unpack_by_rows, static_argnums=1)
  np.testing.assert_array_equal(unpack(v, shape[-1]), jnp.triu(m))


@pytest.mark.parametrize("platform", platforms.ALL)
def test_no_entry_is_gathered_on_a_tpu(platform):
  m = jnp.ones((2, 3, 3))
  program = platforms.text(
    lambda: jax.vjp(ops.triu_vectorize, m)[1](jnp.ones((2, 6))), platform
  )
  moves_entries = "stablehlo.gather" in program or "stablehlo.scatter" in program
  assert moves_entries == (platform != "tpu")


@pytest.mark.parametrize(
  ("call", "match"),
  [
    (lambda: ops.triu_vectorize(jnp.ones((2, 3))), r"\(2, 3\).*square"),
    (lambda: ops.triu_unvectorize(jnp.ones(5)), "length 3"),
    (lambda: ops.triu_unvectorize(1.0), r"\(\)"),
  ],
)
def test_bad_input(call, match):
  with pytest.raises(ValueError, match=match):
    call()
