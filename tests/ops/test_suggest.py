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


@pytest.mark.parametrize("value", [jnp.nan, jnp.inf])
def test_features_that_are_not_finite_are_not_passed_over(phi, value):
  suggested = ops.suggest_parameters(phi.at[0, 0, 0].set(value))
  assert all(jnp.isnan(v) for v in suggested.values())


def test_zeros_do_not_count(phi):
  """Channels that never fire and vectors that repeat change nothing."""
  suggested = ops.suggest_parameters(phi)
  wide = ops.suggest_parameters(jnp.pad(phi, ((0, 0), (0, 0), (0, 200))))
  for name, value in suggested.items():
    np.testing.assert_allclose(wide[name], value, rtol=1e-3, err_msg=name)
  few = phi[:, :3]
  repeated = ops.suggest_parameters(jnp.repeat(few, 30, axis=1))
  np.testing.assert_allclose(
    repeated["eta"], ops.suggest_parameters(few)["eta"], rtol=1e-3
  )


def test_first_order_parameters_take_the_quantile_halfway(rng):
  mean = jnp.asarray(np.abs(rng.normal(size=(1, 50))), jnp.float32)
  suggested = ops.suggest_first_order_parameters(mean)
  psi = ops.sigme(mean, suggested["eta_prime"], trace_normalize=False)
  np.testing.assert_allclose(jnp.quantile(psi, 0.9), 0.5, rtol=1e-3)
  psi = ops.first_order_maxexp(mean, suggested["eta"], lam=0.0)
  np.testing.assert_allclose(jnp.quantile(psi, 0.9), 0.5, rtol=1e-3)
  np.testing.assert_allclose(
    suggested["gamma_prime"] * jnp.quantile(mean, 0.9), 1, rtol=1e-5
  )
  sparse = ops.suggest_first_order_parameters(jnp.eye(20))
  np.testing.assert_allclose(sparse["gamma_prime"], 1)
