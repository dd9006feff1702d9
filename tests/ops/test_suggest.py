import jax
import numpy as np
import pytest

from pnjax import ops

suggest_parameters = jax.jit(ops.suggest_parameters)


@pytest.fixture
def phi(rng):
  return np.maximum(rng.normal(size=(3, 20, 8)), 0).astype(np.float32)


def test_eager_and_jit_agree(phi):
  suggested = ops.suggest_parameters(phi)
  assert set(suggested) == {"alpha", "eta_prime", "eta", "gamma_prime"}
  for name, value in suggest_parameters(phi).items():
    assert value.shape == ()
    np.testing.assert_allclose(suggested[name], value, rtol=1e-5)


def test_by_definition(phi):
  """Compare with NumPy: quantiles per image, averaged over images."""
  x = np.asarray(phi, np.float64)
  m = x.mT @ x / 20
  trace = np.trace(m, axis1=1, axis2=2)
  entry = [np.quantile(a[a > 0], 0.9) for a in m]
  eigenvalue = np.quantile(np.linalg.eigvalsh(m) / trace[:, None], 0.9, axis=1)
  want = {
    "alpha": np.mean(np.linalg.norm(x, axis=-1)) / 3,
    "eta_prime": 2 * np.arctanh(0.5) / np.mean(entry / trace),
    "eta": np.log(0.9) / np.log1p(-np.mean(eigenvalue)),
    "gamma_prime": 1 / np.mean(entry),
  }
  want["eta"] = max(want["eta"], 1)
  for name, value in suggest_parameters(phi).items():
    np.testing.assert_allclose(value, want[name], rtol=1e-4, err_msg=name)


@pytest.mark.parametrize("scale", [1e-3, 1e4])
def test_pooled_matrices_do_not_depend_on_the_scale(phi, scale):
  """SigmE, MaxExp and AsinhE of c·φ with the parameters suggested for c·φ."""
  small, large = suggest_parameters(phi), suggest_parameters(phi * np.float32(scale))
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
      pool(phi * np.float32(scale), large[name], **kwargs),
      pool(phi, small[name], **kwargs),
      rtol=1e-3,
      atol=1e-5,
    )


def test_sigme_takes_the_quantile_halfway_to_saturation(phi):
  suggested = suggest_parameters(phi[:1])
  psi = ops.sigme_pool(phi[:1], suggested["eta_prime"], lam=0.0)
  np.testing.assert_allclose(np.quantile(psi, 0.9), 0.5, rtol=1e-3)


def test_zero_features_give_one(phi):
  suggested = suggest_parameters(np.zeros_like(phi))
  assert all(value == 1 for value in suggested.values())


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e25])
def test_non_finite_features_give_nan(phi, value):
  phi[0, 0, 0] = value
  assert all(np.isnan(v) for v in suggest_parameters(phi).values())


def test_zeros_are_ignored(phi):
  """Dead channels and repeated vectors change nothing."""
  suggested = suggest_parameters(phi)
  wide = suggest_parameters(np.pad(phi, ((0, 0), (0, 0), (0, 200))))
  for name, value in suggested.items():
    np.testing.assert_allclose(wide[name], value, rtol=1e-3, err_msg=name)
  few = phi[:, :3]
  repeated = suggest_parameters(np.repeat(few, 30, axis=1))
  np.testing.assert_allclose(repeated["eta"], suggest_parameters(few)["eta"], rtol=1e-3)


def test_first_order_parameters_take_the_quantile_halfway_to_saturation(rng):
  mean = np.abs(rng.normal(size=(1, 50))).astype(np.float32)
  suggested = jax.jit(ops.suggest_first_order_parameters)(mean)
  psi = ops.sigme(mean, suggested["eta_prime"], trace_normalize=False)
  np.testing.assert_allclose(np.quantile(psi, 0.9), 0.5, rtol=1e-3)
  psi = ops.first_order_maxexp(mean, suggested["eta"], lam=0.0)
  np.testing.assert_allclose(np.quantile(psi, 0.9), 0.5, rtol=1e-3)
  np.testing.assert_allclose(
    suggested["gamma_prime"] * np.quantile(mean, 0.9), 1, rtol=1e-5
  )
  sparse = ops.suggest_first_order_parameters(np.eye(20, dtype=np.float32))
  np.testing.assert_allclose(sparse["gamma_prime"], 1)
