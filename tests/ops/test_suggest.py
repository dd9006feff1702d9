import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import ops


@pytest.fixture
def phi(rng):
  return jnp.asarray(np.maximum(rng.normal(size=(3, 20, 8)), 0), jnp.float32)


def test_is_deterministic_and_works_under_jit(phi):
  suggested = ops.suggest_parameters(phi)
  assert set(suggested) == {"alpha", "eta_prime", "eta", "gamma_prime"}
  again = jax.jit(ops.suggest_parameters)(phi)
  for name, value in suggested.items():
    assert value.shape == ()
    np.testing.assert_allclose(again[name], value, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-3, 1e4])
def test_pooled_matrices_do_not_depend_on_the_scale(phi, scale):
  """SigmE, MaxExp and AsinhE of c·φ with the parameters suggested for c·φ."""
  small, large = ops.suggest_parameters(phi), ops.suggest_parameters(phi * scale)
  np.testing.assert_allclose(large["alpha"], small["alpha"] * scale, rtol=1e-5)
  np.testing.assert_allclose(
    large["gamma_prime"], small["gamma_prime"] / scale**2, rtol=1e-4
  )
  for pool, name, kwargs in (
    (ops.sigme_pool, "eta_prime", {"lam": 0.0}),
    (ops.spectral_sigme_pool, "eta_prime", {"lam": 0.0}),
    (ops.spectral_maxexp_pool, "eta", {"lam": 0.0}),
    (ops.asinhe_pool, "gamma_prime", {}),
    (ops.spectral_asinhe_pool, "gamma_prime", {}),
  ):
    np.testing.assert_allclose(
      pool(phi * scale, large[name], **kwargs),
      pool(phi, small[name], **kwargs),
      rtol=1e-3,
      atol=1e-5,
    )


def test_takes_the_quantile_halfway_to_saturation(phi):
  suggested = ops.suggest_parameters(phi[0])
  psi = ops.sigme_pool(phi[0], suggested["eta_prime"], lam=0.0)
  np.testing.assert_allclose(jnp.quantile(psi, 0.9), 0.5, rtol=1e-3)


def test_zero_features_give_one(phi):
  suggested = ops.suggest_parameters(jnp.zeros_like(phi))
  assert all(value == 1 for value in suggested.values())
