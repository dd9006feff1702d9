import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from pnjax import ops
from tests.ops import families

SPECTRA = {
  "distinct": [0.1, 0.4, 1.1, 1.9, 2.5],
  "repeated": [0.3, 0.3, 0.3, 1.5, 1.5],
  "nearly equal": [0.3, 0.3 + 1e-9, 0.3 + 2e-9, 1.5, 1.5 + 1e-13],
  "identity": [1.0, 1.0, 1.0, 1.0, 1.0],
  "zeros": [0.0, 0.0, 0.0, 0.7, 2.0],
  "rank one": [0.0, 0.0, 0.0, 0.0, 2.0],
  "zero": [0.0, 0.0, 0.0, 0.0, 0.0],
}


def table_2(m):
  """Every column of Table 2 as the paper writes it, by SciPy."""
  identity = np.eye(len(m))
  t = np.trace(m) + 1e-6
  maxexp, sigme = families.SPECTRAL["maxexp"][1], families.SPECTRAL["sigme"][1]
  asinhe = families.SPECTRAL["asinhe"][1]
  return {
    "gamma": scipy.linalg.fractional_matrix_power(m, families.SPECTRAL["gamma"][1]),
    "maxexp": identity - scipy.linalg.fractional_matrix_power(identity - m / t, maxexp),
    "asinhe": scipy.linalg.logm(
      asinhe * m + scipy.linalg.sqrtm(identity + asinhe**2 * m @ m)
    ),
    "sigme": 2 * np.linalg.inv(identity + scipy.linalg.expm(-sigme * m / t)) - identity,
  }


@pytest.mark.parametrize("name", families.SPECTRAL)
def test_table_2(x64, rng, name):
  m, _ = families.matrix_with_spectrum(rng, SPECTRA["distinct"])
  f, parameter = families.SPECTRAL[name]
  np.testing.assert_allclose(f(m, parameter), table_2(m)[name], atol=1e-10)


@pytest.mark.parametrize("name", families.SPECTRAL)
def test_diagonal_matrices_are_normalised_entry_by_entry(x64, name):
  diagonal = jnp.array([0.2, 0.5, 0.5, 3.0])
  f, parameter = families.SPECTRAL[name]
  g, _ = families.ELEMENTWISE[name]
  lam = {"lam": 0.0} if name == "gamma" else {}
  want = jnp.diag(jnp.diagonal(g(jnp.diag(diagonal), parameter, **lam)))
  np.testing.assert_allclose(f(jnp.diag(diagonal), parameter), want, atol=1e-14)


@pytest.mark.parametrize("name", families.SPECTRAL)
def test_rotation_commutes(x64, rng, name):
  f, parameter = families.SPECTRAL[name]
  m, _ = families.matrix_with_spectrum(rng, SPECTRA["repeated"])
  _, q = families.matrix_with_spectrum(rng, np.ones(5))
  np.testing.assert_allclose(
    f(q @ m @ q.T, parameter), q @ f(m, parameter) @ q.T, atol=1e-13
  )


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("name", families.SMOOTH)
def test_gradients(x64, rng, name, spectrum):
  f, parameter = families.SPECTRAL[name]
  m, _ = families.matrix_with_spectrum(rng, SPECTRA[spectrum])
  # A zero matrix has only λ to be divided by; make it large enough to step from.
  lam = {} if name == "asinhe" or spectrum != "zero" else {"lam": 1.0}
  families.check_gradients(lambda m, p: f(m, p, **lam), (m, parameter))


@pytest.mark.parametrize(
  "spectrum", ["distinct", "repeated", "nearly equal", "identity"]
)
@pytest.mark.parametrize("power", [0.3, 0.5, 1.0])
def test_gradients_of_gamma(x64, rng, spectrum, power):
  m, _ = families.matrix_with_spectrum(rng, SPECTRA[spectrum])
  families.check_gradients(ops.spectral_gamma, (m, power))


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("name", families.SPECTRAL)
def test_values_and_gradients_are_finite(rng, name, spectrum):
  f, parameter = families.SPECTRAL[name]
  m, _ = families.matrix_with_spectrum(rng, SPECTRA[spectrum])
  g = rng.normal(size=m.shape).astype(np.float32)
  m = m.astype(np.float32)
  for x in families.value_and_derivatives(f, m, parameter, g):
    assert jnp.all(jnp.isfinite(x))


@pytest.mark.slow
@pytest.mark.parametrize("name", families.SPECTRAL)
def test_second_derivatives_where_eigenvalues_differ(x64, rng, name):
  f, parameter = families.SPECTRAL[name]
  m, _ = families.matrix_with_spectrum(rng, [0.1, 0.5, 1.1])
  families.check_second_derivatives(f, (m, parameter), ("rev",))


def test_autodiff_through_eigh_is_nan_where_ours_is_not(rng):
  """The reason for the custom derivative, kept as a test."""
  m = jnp.eye(3) * 2

  def naive(m):
    w, u = jnp.linalg.eigh(m)
    return (u * jnp.sqrt(w)[None, :]) @ u.T

  g = jnp.asarray(rng.normal(size=(3, 3)), jnp.float32)
  assert jnp.any(jnp.isnan(jax.grad(lambda m: jnp.sum(g * naive(m)))(m)))
  grad = jax.grad(lambda m: jnp.sum(g * ops.spectral_gamma(m, 0.5)))(m)
  np.testing.assert_allclose(grad, (g + g.T) / 2 * 0.5 / np.sqrt(2), rtol=1e-5)


def test_eq_24_sylvester(x64, rng):
  """Eq. 24 is twice the derivative of M^½."""
  m, _ = families.matrix_with_spectrum(rng, SPECTRA["distinct"])
  g = rng.normal(size=(5, 5))
  root, identity = scipy.linalg.sqrtm(m), np.eye(5)
  pinv = np.linalg.pinv(np.kron(identity, root) + np.kron(root, identity))
  eq_24 = 2 * (((g + g.T) / 2).reshape(-1) @ pinv).reshape(5, 5)
  grad = jax.grad(lambda m: jnp.sum(g * ops.spectral_gamma(m, 0.5)))(m)
  np.testing.assert_allclose(grad, eq_24 / 2, atol=1e-12)


def test_eq_25_derivative_of_spectral_maxexp(x64, rng):
  eta = 4
  m, _ = families.matrix_with_spectrum(rng, SPECTRA["repeated"])
  g, t = rng.normal(size=(5, 5)), np.trace(m)
  a = np.eye(5) - m / t
  powers = [np.linalg.matrix_power(a, n) for n in range(eta)]
  eq_25 = np.zeros((5, 5))
  for i, j in np.ndindex(5, 5):
    inner = np.zeros((5, 5))
    inner[i, j] = 1
    inner = inner - m / t * (i == j)
    for n in range(eta):
      eq_25[i, j] += np.sum(g * (powers[n] @ inner @ powers[eta - 1 - n])) / t
  grad = jax.grad(lambda m: jnp.sum(g * ops.spectral_maxexp(m, 4.0, lam=0.0)))(m)
  np.testing.assert_allclose(grad, (eq_25 + eq_25.T) / 2, atol=1e-12)


def test_odd_functions_take_negative_eigenvalues(x64, rng):
  m, q = families.matrix_with_spectrum(rng, [-2.0, -0.5, 0.5, 1.0, 4.0])
  w = np.array([-2.0, -0.5, 0.5, 1.0, 4.0])
  np.testing.assert_allclose(
    ops.spectral_asinhe(m, 3.0), (q * np.arcsinh(3 * w)) @ q.T, atol=1e-13
  )
  families.check_gradients(ops.spectral_asinhe, (m, 3.0))
  families.check_gradients(ops.spectral_sigme, (m, 3.0))


@pytest.mark.parametrize(
  "call,error,match",
  [
    (lambda: ops.spectral_gamma(jnp.ones((2, 3)), 0.5), ValueError, "square"),
    (lambda: ops.spectral_gamma(jnp.ones(4), 0.5), ValueError, r"\(4,\)"),
    (lambda: ops.spectral_gamma(jnp.ones((2, 2), int), 0.5), TypeError, "int32"),
    (lambda: ops.spectral_maxexp(jnp.ones((2, 2)), 0.0), ValueError, "eta"),
    (lambda: ops.spectral_maxexp(jnp.ones((2, 2)), 2.0, -1.0), ValueError, "lam"),
    (lambda: ops.spectral_asinhe(jnp.ones((2, 2)), 0.0), ValueError, "gamma_prime"),
    (lambda: ops.spectral_sigme(jnp.ones((2, 2)), 0.0), ValueError, "eta_prime"),
  ],
)
def test_bad_input(call, error, match):
  with pytest.raises(error, match=match):
    call()
