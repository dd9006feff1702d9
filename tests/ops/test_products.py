"""The route "matmul", compared with decompositions."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import ops
from pnjax.ops import _matrix_sqrt
from tests import jaxprs
from tests.ops import families

POOLS = {
  "gamma": lambda phi, route: ops.spectral_gamma_pool(phi, 0.5, route),
  "maxexp": lambda phi, route: ops.spectral_maxexp_pool(phi, 20, route=route),
  **{
    f"sigme {eta_prime:g}": functools.partial(
      lambda phi, route, eta_prime: ops.spectral_sigme_pool(
        phi, eta_prime, route=route
      ),
      eta_prime=eta_prime,
    )
    for eta_prime in (1.0, 30.0, 1e3, 1e5)
  },
}
FORMS = {
  "gamma": lambda phi, p, route: ops.spectral_gamma_forms(phi, p, 0.5, route),
  "maxexp": lambda phi, p, route: ops.spectral_maxexp_forms(phi, p, 20, route=route),
  "sigme": lambda phi, p, route: ops.spectral_sigme_forms(phi, p, 300.0, route=route),
}
# Kinds of features whose smaller Gram matrix has full rank.
FULL_RANK = ("wide", "tall", "one vector", "tied")


def features(rng, kind, dtype=np.float64):
  """Features as in `families`, but well conditioned if they are wide, and ties."""
  if kind == "wide":
    return np.maximum(rng.normal(size=(4, 40)), 0).astype(dtype)
  if kind == "tied":
    return np.linalg.qr(rng.normal(size=(9, 9)))[0][:6].astype(dtype)
  return families.features(rng, kind, dtype)


def value_and_grad(pool, phi, route, g):
  """The pooled matrix, and the gradient of its product with g."""
  value, vjp = jax.vjp(lambda phi: pool(phi, route), jnp.asarray(phi))
  return np.asarray(value), np.asarray(vjp(jnp.asarray(g, value.dtype))[0])


def scales(value, grad, phi, g):
  """The scales of a value and of a gradient.

  A saturated function has next to no gradient; then the scale is a tenth of that of a
  linear function.
  """
  norm = np.linalg.norm
  linear = norm(g) * norm(value) / max(norm(phi), 1e-30)
  return max(norm(value), 1e-30), max(norm(grad), 0.1 * linear, 1e-30)


@pytest.mark.parametrize("kind", (*families.FEATURES, "tied"))
@pytest.mark.parametrize("name", POOLS)
def test_routes_agree_in_float64(x64, rng, name, kind):
  phi = features(rng, kind)
  g = rng.normal(size=2 * phi.shape[-1:])
  want, want_grad = value_and_grad(POOLS[name], phi, "gram", g)
  scale, grad_scale = scales(want, want_grad, phi, g)
  accurate = name != "gamma" or kind in FULL_RANK
  for route in ("direct", "matmul"):
    got, grad = value_and_grad(POOLS[name], phi, route, g)
    assert np.isfinite(grad).all()
    if route == "direct" or accurate:
      assert np.linalg.norm(got - want) <= 1e-9 * scale
      assert np.linalg.norm(grad - want_grad) <= 1e-9 * grad_scale
    else:
      assert np.linalg.norm(got - want) <= 1e-6 * scale


@pytest.mark.parametrize("kind", (*families.FEATURES, "tied"))
@pytest.mark.parametrize("name", ["gamma", "maxexp", "sigme 1", "sigme 1000"])
def test_routes_agree_in_float32(rng, name, kind):
  phi = features(rng, kind, np.float32)
  g = rng.normal(size=2 * phi.shape[-1:])
  want, want_grad = value_and_grad(POOLS[name], phi, "gram", g)
  got, grad = value_and_grad(POOLS[name], phi, "matmul", g)
  scale, grad_scale = scales(want, want_grad, phi, g)
  assert np.isfinite(grad).all()
  if name != "gamma" or kind in FULL_RANK:
    assert np.linalg.norm(got - want) <= 2e-4 * scale
    assert np.linalg.norm(grad - want_grad) <= 2e-4 * grad_scale
  else:
    assert np.linalg.norm(got - want) <= 5e-3 * scale


@pytest.mark.parametrize("kind", families.WIDE)
def test_large_eta_prime_in_float32(rng, kind):
  """Rounding errors in the null space of the Gram matrix do not spread."""
  phi = features(rng, kind, np.float32)
  pool = POOLS["sigme 100000"]
  want = pool(phi, "gram")
  got = pool(phi, "matmul")
  assert np.linalg.norm(got - want) <= 2e-4 * max(np.linalg.norm(want), 1e-30)


@pytest.mark.parametrize(
  "kind,eta_prime", [*((kind, 1e7) for kind in families.FEATURES), ("constant", 1e30)]
)
def test_any_eta_prime_is_finite(rng, kind, eta_prime):
  phi = features(rng, kind, np.float32)
  f = functools.partial(ops.spectral_sigme_pool, eta_prime=eta_prime, route="matmul")
  value, vjp = jax.vjp(f, jnp.asarray(phi))
  assert np.isfinite(value).all()
  assert np.isfinite(vjp(jnp.ones_like(value))[0]).all()


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("kind", FULL_RANK)
def test_forms_agree(x64, rng, name, kind):
  if name == "gamma" and kind == "tall":
    kind = "wide"  # The Gram matrix of tall features is singular.
  phi = jnp.asarray(features(rng, kind))
  directions = jnp.asarray(rng.normal(size=(phi.shape[-1], 3)))

  def values(phi, directions, route):
    return FORMS[name](phi, directions, route)

  want, want_vjp = jax.vjp(functools.partial(values, route="gram"), phi, directions)
  got, vjp = jax.vjp(functools.partial(values, route="matmul"), phi, directions)
  np.testing.assert_allclose(got, want, rtol=1e-9)
  g = jnp.arange(1.0, 4.0)
  for a, b in zip(vjp(g), want_vjp(g), strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("kind", ["wide", "tall"])
@pytest.mark.parametrize("name", ["gamma", "maxexp", "sigme 30"])
def test_gradients_in_both_modes(x64, rng, name, kind):
  families.check_gradients(
    lambda phi: POOLS[name](phi, "matmul"), (features(rng, kind),), ("fwd", "rev")
  )


@pytest.mark.parametrize("name", FORMS)
def test_gradients_of_forms_in_both_modes(x64, rng, name):
  families.check_gradients(
    lambda phi, p: FORMS[name](phi, p, "matmul"),
    (features(rng, "wide"), rng.normal(size=(40, 2))),
    ("fwd", "rev"),
  )


@pytest.mark.parametrize("kind", ["constant", "zero", "repeated channels", "tied"])
def test_gradients_of_sigme_at_ties(x64, rng, kind):
  lam = 1.0 if kind == "zero" else 1e-6
  families.check_gradients(
    lambda phi, e: ops.spectral_sigme_pool(
      phi, e, lam, route="matmul", max_eta_prime=40
    ),
    (features(rng, kind), 12.0),
    ("fwd", "rev"),
  )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gamma", "maxexp", "sigme 30"])
def test_second_derivatives(x64, rng, name):
  phi = jnp.asarray(rng.normal(size=(2, 3)))
  families.check_second_derivatives(lambda phi: POOLS[name](phi, "matmul"), (phi,))


@pytest.mark.parametrize("name", POOLS)
def test_no_decomposition(rng, name):
  phi = features(rng, "wide", np.float32)

  def names(route):
    f = jax.grad(lambda phi: jnp.sum(POOLS[name](phi, route)))
    return {equation.primitive.name for equation in jaxprs.equations(f, phi)}

  assert not names("matmul") & {"eigh", "svd", "qr", "cholesky", "lu"}
  assert "eigh" in names("gram")


@pytest.mark.parametrize("name", ["gamma", "sigme 30"])
def test_auto_on_a_cpu_decomposes(rng, name):
  phi = features(rng, "wide", np.float32)
  np.testing.assert_array_equal(POOLS[name](phi, "auto"), POOLS[name](phi, "gram"))
  g = rng.normal(size=2 * phi.shape[-1:])
  for a, b in zip(
    value_and_grad(POOLS[name], phi, "auto", g),
    value_and_grad(POOLS[name], phi, "gram", g),
    strict=True,
  ):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_traced_eta_prime(x64, rng):
  phi = features(rng, "wide")
  pool = functools.partial(ops.spectral_sigme_pool, phi, route="matmul")
  got = jax.jit(functools.partial(pool, max_eta_prime=100))(50.0)
  np.testing.assert_allclose(got, pool(50.0), atol=1e-13)
  with pytest.raises(ValueError, match=r"eta_prime.*max_eta_prime"):
    jax.jit(pool)(50.0)
  auto = jax.jit(lambda e: ops.spectral_sigme_pool(phi, e))(50.0)
  np.testing.assert_allclose(auto, pool(50.0), atol=1e-12)


@pytest.mark.parametrize("batched", [False, True])
def test_lyapunov(x64, rng, batched):
  s, _ = families.matrix_with_spectrum(rng, [1.0, 0.5, 0.5, 1e-3])
  x = rng.normal(size=(3, 4, 4) if batched else (4, 4))
  x = x + x.swapaxes(-1, -2)
  s = np.broadcast_to(s, x.shape)
  got = _matrix_sqrt.solve_lyapunov(jnp.asarray(s), jnp.asarray(s @ x + x @ s))
  np.testing.assert_allclose(got, x, atol=1e-9)


@pytest.mark.parametrize(
  "call,match",
  [
    (lambda p: ops.spectral_gamma_pool(p, 0.4, "matmul"), "power.*0.4.*power=0.5"),
    (lambda p: ops.spectral_asinhe_pool(p, 2.0, "matmul"), "gamma_prime.*SigmE"),
    (lambda p: ops.spectral_maxexp_pool(p, 2.5, route="matmul"), "eta.*integer"),
    (
      lambda p: ops.spectral_sigme_pool(p, 20.0, max_eta_prime=10),
      "max_eta_prime.*10.*at least.*20",
    ),
    (lambda p: ops.spectral_sigme_pool(p, -1.0, route="matmul"), "eta_prime.*> 0"),
    (lambda p: ops.spectral_gamma_forms(p, p.T, 0.5, "direct"), "'direct'.*'gram'"),
    (lambda p: ops.spectral_asinhe_forms(p, p.T, 0.5, "matmul"), "gamma_prime"),
  ],
)
def test_bad_input(call, match):
  with pytest.raises(ValueError, match=match):
    call(jnp.ones((3, 4)))
