import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import ops
from pnjax.ops import _linalg
from tests.ops import families


def relative_error(got, want):
  got, want = np.asarray(got), np.asarray(want)
  return np.max(np.abs(got - want)) / np.max(np.abs(want))


@pytest.mark.parametrize("kind", families.FEATURES)
@pytest.mark.parametrize("route", ["gram", "direct"])
@pytest.mark.parametrize("name", families.SMOOTH)
def test_gradients(x64, rng, name, route, kind):
  pool, parameter = families.SPECTRAL_POOLS[name]
  phi = families.features(rng, kind)
  # Zero features are divided by λ alone, which must exceed the step of the differences.
  lam = (1.0,) if kind == "zero" and name != "asinhe" else ()
  families.check_gradients(functools.partial(pool, route=route), (phi, parameter, *lam))


@pytest.mark.parametrize("eta", [1, 6])
@pytest.mark.parametrize("kind", families.FEATURES)
def test_gradients_by_products(x64, rng, kind, eta):
  phi = families.features(rng, kind)
  lam = (1.0,) if kind == "zero" else ()
  families.check_gradients(
    lambda phi, lam=1e-6: ops.spectral_maxexp_pool(phi, eta, lam, "products"),
    (phi, *lam),
  )


@pytest.mark.parametrize("route,kind", [("direct", "tall"), ("gram", "wide")])
@pytest.mark.parametrize("power", [0.3, 0.5, 1.0])
def test_gradients_of_gamma_at_full_rank(x64, rng, route, kind, power):
  phi = families.features(rng, kind) + 0.1
  families.check_gradients(
    functools.partial(ops.spectral_gamma_pool, route=route), (phi, power)
  )


@pytest.mark.parametrize("kind", families.FEATURES)
@pytest.mark.parametrize("name", families.SPECTRAL_POOLS)
def test_routes_agree(x64, rng, name, kind):
  """Values and derivatives agree to 1e-10 in float64, those of Gamma to 1e-6."""
  pool, parameter = families.SPECTRAL_POOLS[name]
  f, _ = families.SPECTRAL[name]
  phi = families.features(rng, kind)
  g = rng.normal(size=(9, 9))
  tolerance = 1e-6 if name == "gamma" else 1e-10
  want, *want_grads = families.value_and_derivatives(
    lambda x, p: f(ops.cooccurrence(x), p), phi, parameter, g
  )
  for route in ("gram", "direct"):
    got, *grads = families.value_and_derivatives(
      functools.partial(pool, route=route), phi, parameter, g
    )
    np.testing.assert_allclose(got, want, atol=tolerance)
    full_rank = kind in ("wide", "one vector")
    if name != "gamma" or full_rank:
      for a, b in zip(grads, want_grads, strict=True):
        np.testing.assert_allclose(a, b, atol=tolerance * 10, rtol=tolerance)


@pytest.mark.parametrize(
  "num_vectors,route", [(6, "gram"), (9, "direct"), (14, "direct")]
)
@pytest.mark.parametrize("name", families.SPECTRAL_POOLS)
def test_auto_decomposes_the_smaller_matrix(x64, rng, name, num_vectors, route):
  pool, parameter = families.SPECTRAL_POOLS[name]
  phi = rng.normal(size=(num_vectors, 9))
  np.testing.assert_array_equal(pool(phi, parameter), pool(phi, parameter, route=route))


@pytest.mark.parametrize("kind", families.FEATURES)
@pytest.mark.parametrize("eta", [1, 2, 7, 20])
def test_products_agree_with_eigh(x64, rng, kind, eta):
  phi = families.features(rng, kind)
  np.testing.assert_allclose(
    ops.spectral_maxexp_pool(phi, eta, route="products"),
    ops.spectral_maxexp_pool(phi, float(eta)),
    atol=1e-12,
  )


def rectified(rng, n, d):
  return np.maximum(rng.normal(size=(n, d)), 0).astype(np.float32)


def bursty(rng, n, d):
  """Rectified features whose eigenvalues span six orders of magnitude."""
  x = rng.normal(size=(n, d)) + rng.normal(size=(n, 1))
  return (np.maximum(x, 0) * np.exp(rng.normal(size=(1, d)))).astype(np.float32)


@pytest.mark.parametrize("make", [rectified, bursty])
@pytest.mark.parametrize("name", families.SPECTRAL_POOLS)
def test_float32_is_more_accurate_through_the_gram_matrix(rng, name, make):
  pool, parameter = families.SPECTRAL_POOLS[name]
  phi = make(rng, 49, 256)
  g = rng.normal(size=(256, 256)).astype(np.float32)
  with jax.enable_x64(True):
    want, want_grad, _ = families.value_and_derivatives(
      functools.partial(pool, route="gram"), phi.astype(np.float64), parameter, g
    )
  value, grad, _ = families.value_and_derivatives(
    functools.partial(pool, route="gram"), phi, parameter, g
  )
  direct = pool(phi, parameter, route="direct")
  assert relative_error(value, want) < relative_error(direct, want)
  assert relative_error(value, want) < (1e-6 if make is rectified else 1e-5)
  assert relative_error(grad, want_grad) < (1e-5 if make is rectified else 2e-3)
  if make is rectified:
    assert relative_error(value, direct) < 1e-5


def test_symmetric_product_in_blocks(x64, rng):
  """600 columns are more than one block."""
  x, g = rng.normal(size=(2, 5, 600)), rng.normal(size=(2, 600, 600))
  got = jax.jit(_linalg.symmetric_product)(x, g)
  np.testing.assert_allclose(got, x @ (g + g.mT), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", families.SPECTRAL_POOLS)
def test_second_derivatives_where_eigenvalues_differ(x64, rng, name):
  pool, parameter = families.SPECTRAL_POOLS[name]
  phi = jnp.asarray(rng.normal(size=(2, 3)))
  families.check_second_derivatives(
    lambda x, p: pool(x, p, route="gram"), (phi, parameter), ("rev",)
  )


@pytest.mark.parametrize(
  "call,error,match",
  [
    (lambda p: ops.spectral_gamma_pool(p, 0.5, "svd"), ValueError, "'svd'.*'gram'"),
    (lambda p: ops.spectral_gamma_pool(p, 0.5, "products"), ValueError, "MaxExp"),
    (lambda p: ops.spectral_sigme_pool(p, 2.0, route="x"), ValueError, "'x'"),
    (lambda p: ops.spectral_maxexp_pool(p, 2, route="x"), ValueError, "'x'"),
    (
      lambda p: ops.spectral_maxexp_pool(p, 2.0, route="products"),
      ValueError,
      "eta.*2.0.*Python integer",
    ),
    (lambda p: ops.spectral_maxexp_pool(p, 0), ValueError, "eta.*0.*> 0"),
    (lambda p: ops.spectral_gamma_pool(p[0], 0.5), ValueError, r"\[..., N, d\]"),
    (lambda p: ops.spectral_gamma_pool(p[:0], 0.5), ValueError, "N >= 1"),
    (lambda p: ops.spectral_gamma_pool(p.astype(int), 0.5), TypeError, "int32"),
  ],
)
def test_bad_input(call, error, match):
  with pytest.raises(error, match=match):
    call(jnp.ones((3, 4)))
