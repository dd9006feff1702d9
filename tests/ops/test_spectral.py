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
  """Every column of Table 2 as written in the paper, by SciPy."""
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
def test_diagonal_matrices_are_normalized_element_wise(x64, name):
  diagonal = np.array([0.2, 0.5, 0.5, 3.0])
  f, parameter = families.SPECTRAL[name]
  g, _ = families.ELEMENTWISE[name]
  lam = {"lam": 0.0} if name == "gamma" else {}
  want = np.diag(np.diagonal(g(np.diag(diagonal), parameter, **lam)))
  np.testing.assert_allclose(f(np.diag(diagonal), parameter), want, atol=1e-14)


@pytest.mark.parametrize("name", families.SPECTRAL)
def test_commutes_with_rotation(x64, rng, name):
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
  # A zero matrix is divided by λ alone, which must exceed the step of the differences.
  lam = (1.0,) if spectrum == "zero" and name != "asinhe" else ()
  families.check_gradients(f, (m, parameter, *lam))


@pytest.mark.parametrize(
  "spectrum", ["distinct", "repeated", "nearly equal", "identity"]
)
@pytest.mark.parametrize("power", [0.3, 0.5, 1.0])
def test_gradients_of_gamma(x64, rng, spectrum, power):
  m, _ = families.matrix_with_spectrum(rng, SPECTRA[spectrum])
  families.check_gradients(ops.spectral_gamma, (m, power))


@pytest.mark.parametrize("spectrum", SPECTRA)
@pytest.mark.parametrize("name", families.SPECTRAL)
def test_float32_is_finite_and_accurate(rng, name, spectrum):
  f, parameter = families.SPECTRAL[name]
  m, _ = families.matrix_with_spectrum(rng, SPECTRA[spectrum])
  g = rng.normal(size=m.shape)
  got = families.value_and_derivatives(f, np.float32(m), parameter, np.float32(g))
  with jax.enable_x64(True):
    want = families.value_and_derivatives(f, m, parameter, g)
    want = [np.asarray(x) for x in want]
  assert all(np.all(np.isfinite(x)) for x in got)
  # The derivative of Gamma omits zero eigenvalues, which rounding hides in float32.
  if name == "gamma" and 0 in SPECTRA[spectrum]:
    got, want = got[:1], want[:1]
  for a, b in zip(got, want, strict=True):
    np.testing.assert_allclose(a, b, atol=1e-4 * max(1, np.max(np.abs(b))))


@pytest.mark.slow
@pytest.mark.parametrize("name", families.SPECTRAL)
def test_second_derivatives_where_eigenvalues_differ(x64, rng, name):
  f, parameter = families.SPECTRAL[name]
  m, _ = families.matrix_with_spectrum(rng, [0.1, 0.5, 1.1])
  families.check_second_derivatives(f, (m, parameter), ("rev",))


def test_plain_autodiff_through_eigh_is_nan_at_ties(rng):
  """The reason for the custom derivative."""
  m = np.float32(2) * np.eye(3, dtype=np.float32)

  def naive(m):
    w, u = jnp.linalg.eigh(m)
    return (u * jnp.sqrt(w)[None, :]) @ u.T

  g = rng.normal(size=(3, 3)).astype(np.float32)
  grad = jax.jit(jax.grad(lambda m: jnp.sum(g * naive(m))))(m)
  assert np.any(np.isnan(grad))
  grad = jax.jit(jax.grad(lambda m: jnp.sum(g * ops.spectral_gamma(m, 0.5))))(m)
  np.testing.assert_allclose(grad, (g + g.T) / 2 * 0.5 / np.sqrt(2), rtol=1e-5)


def test_eq_24_sylvester(x64, rng):
  """Eq. 24 is twice the derivative of M^½."""
  m, _ = families.matrix_with_spectrum(rng, SPECTRA["distinct"])
  g = rng.normal(size=(5, 5))
  root, identity = scipy.linalg.sqrtm(m), np.eye(5)
  pinv = np.linalg.pinv(np.kron(identity, root) + np.kron(root, identity))
  eq_24 = 2 * (((g + g.T) / 2).reshape(-1) @ pinv).reshape(5, 5)
  grad = jax.jit(jax.grad(lambda m: jnp.sum(g * ops.spectral_gamma(m, 0.5))))(m)
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

  def loss(m):
    return jnp.sum(g * ops.spectral_maxexp(m, 4.0, lam=0.0))

  grad = jax.jit(jax.grad(loss))(m)
  np.testing.assert_allclose(grad, (eq_25 + eq_25.T) / 2, atol=1e-12)


def test_odd_functions_accept_negative_eigenvalues(x64, rng):
  w = np.array([-2.0, -0.5, 0.5, 1.0, 4.0])
  m, q = families.matrix_with_spectrum(rng, w)
  np.testing.assert_allclose(
    ops.spectral_asinhe(m, 3.0), (q * np.arcsinh(3 * w)) @ q.T, atol=1e-13
  )
  np.testing.assert_allclose(
    ops.spectral_sigme(m, 3.0, lam=0.0), (q * np.tanh(1.5 * w / 3)) @ q.T, atol=1e-13
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
