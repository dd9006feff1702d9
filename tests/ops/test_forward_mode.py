"""Forward mode, and the line that explains where it is missing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import ops
from pnjax.ops import _linalg
from tests.ops import families


@pytest.mark.parametrize("name", families.ELEMENTWISE_POOLS)
def test_element_wise_pools(x64, rng, name):
  pool, parameter = families.ELEMENTWISE_POOLS[name]
  phi = np.abs(rng.normal(size=(2, 3, 4)))
  families.check_gradients(pool, (phi, parameter), ("fwd", "rev"))


@pytest.mark.slow
@pytest.mark.parametrize("name", families.ELEMENTWISE_POOLS)
def test_second_derivatives_of_element_wise_pools(x64, rng, name):
  pool, parameter = families.ELEMENTWISE_POOLS[name]
  phi = np.abs(rng.normal(size=(2, 3)))
  families.check_second_derivatives(pool, (phi, parameter))


def test_hessian(x64, rng):
  """Forward over reverse mode, as `jax.hessian` composes them."""
  phi = jnp.asarray(rng.normal(size=(2, 3)))

  def loss(pool):
    return lambda phi: jnp.sum(pool(phi) ** 2)

  got = jax.hessian(loss(lambda phi: ops.sigme_pool(phi, 3.0)))(phi)
  want = jax.hessian(loss(lambda phi: ops.sigme(ops.cooccurrence(phi), 3.0)))(phi)
  np.testing.assert_allclose(got, want, atol=1e-10)


def test_linear_map(x64, rng):
  """The transpose is the one that is given, in batches and under jit."""
  a, x = rng.normal(size=(4, 3)), rng.normal(size=(5, 3))

  def apply(x):
    return _linalg.linear_map(lambda x: a @ x, lambda y: 2 * (a.T @ y), x, (4,))

  np.testing.assert_allclose(jax.jit(jax.vmap(apply))(x), x @ a.T)
  _, vjp = jax.vjp(jax.vmap(apply), jnp.asarray(x))
  y = rng.normal(size=(5, 4))
  np.testing.assert_allclose(vjp(jnp.asarray(y))[0], 2 * y @ a)
  _, vjp_of_vjp = jax.vjp(lambda y: vjp(y)[0], jnp.asarray(y))
  np.testing.assert_allclose(vjp_of_vjp(jnp.asarray(x))[0], x @ a.T)


@pytest.mark.parametrize(
  "f",
  [
    lambda phi: ops.spectral_asinhe_pool(phi, 3.0),
    lambda phi: ops.spectral_sigme_pool(phi, 3.0),
    lambda phi: ops.spectral_gamma(ops.cooccurrence(phi), 0.5),
    lambda phi: ops.spectral_map_pool(phi, jnp.tanh),
    lambda phi: ops.matrix_log(ops.cooccurrence(phi), 1.0),
    lambda phi: ops.spectral_gamma_forms(phi, jnp.eye(4), 0.5),
  ],
)
def test_decompositions_explain_that_they_have_none(rng, f):
  phi = jnp.asarray(rng.normal(size=(3, 4)), jnp.float32)
  for differentiate in (lambda: jax.jvp(f, (phi,), (phi,)), lambda: jax.jacfwd(f)(phi)):
    with pytest.raises(TypeError, match=r"reverse mode only.*route='matmul'"):
      differentiate()
