import functools

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from pnjax import ops
from pnjax.ops import _spectral_map
from tests.ops import families
from tests.ops import test_spectrum

# Name: (function, the same operator on matrices, or from features).
NAMED = {
  "sqrt": (jnp.sqrt, lambda m: ops.spectral_gamma(m, 0.5)),
  "tanh": (
    lambda x: jnp.tanh(50 * x),
    lambda m: ops.spectral_sigme(m / trace(m), 100.0, lam=0.0),
  ),
  "arcsinh": (lambda x: jnp.arcsinh(7 * x), lambda m: ops.spectral_asinhe(m, 7.0)),
  "log1p": (jnp.log1p, lambda m: ops.matrix_log(m, 1.0)),
}


def trace(m):
  return jnp.trace(m, axis1=-2, axis2=-1)


def scaled(name, m):
  """Matrices of trace 1 for SigmE, which divides by the trace."""
  return m / trace(m) if name == "tanh" else m


@pytest.mark.parametrize(
  "spectrum", [(3.0, 2.0, 0.5), (2.0, 2.0, 2.0), (1.0, 1.0, 0.0), (1.0, 0.0, 0.0)]
)
@pytest.mark.parametrize("name", NAMED)
def test_equals_named_operators(x64, rng, name, spectrum):
  m, _ = families.matrix_with_spectrum(rng, spectrum)
  g = rng.normal(size=(3, 3))
  f, operator = NAMED[name]
  got, vjp = jax.vjp(lambda m: ops.spectral_map(scaled(name, m), f), jnp.asarray(m))
  want, want_vjp = jax.vjp(operator, jnp.asarray(m))
  np.testing.assert_allclose(got, want, atol=1e-9)
  np.testing.assert_allclose(vjp(g)[0], want_vjp(g)[0], atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("route", ["gram", "direct", "auto"])
@pytest.mark.parametrize("kind", families.FEATURES)
def test_pool_equals_asinhe(x64, rng, kind, route):
  phi = families.features(rng, kind)
  g = rng.normal(size=(9, 9))
  f = functools.partial(ops.spectral_map_pool, route=route)
  got, *grads = families.value_and_derivatives(
    lambda phi, slope: f(phi, lambda x: jnp.arcsinh(slope * x)), phi, 7.0, g
  )
  want, *want_grads = families.value_and_derivatives(
    ops.spectral_asinhe_pool, phi, 7.0, g
  )
  np.testing.assert_allclose(got, want, atol=1e-9)
  for a, b in zip(grads, want_grads, strict=True):
    np.testing.assert_allclose(a, b, atol=1e-9, rtol=1e-9)


def test_second_derivatives_are_nan_at_ties_and_exact_elsewhere(x64, rng):
  """Never finite and wrong."""

  def loss(m):
    return jnp.sum(jnp.sin(m) * ops.spectral_map(m, jnp.tanh))

  assert np.isnan(jax.hessian(loss)(jnp.eye(2))).any()
  m, _ = families.matrix_with_spectrum(rng, (0.5, 2.0))
  direction = families.matrix_with_spectrum(rng, (1.0, -1.0))[0]
  got = jnp.einsum("ijkl,kl->ij", jax.hessian(loss)(jnp.asarray(m)), direction)
  low, high = (jax.grad(loss)(m + step * direction) for step in (-1e-5, 1e-5))
  np.testing.assert_allclose(got, (high - low) / 2e-5, rtol=1e-5, atol=1e-7)


def test_a_function_of_either_sign(x64, rng):
  """The route through the Gram matrix takes no roots of ψ(w)/w."""
  phi = rng.normal(size=(4, 6))

  def f(x):
    return jnp.sin(3 * x)

  np.testing.assert_allclose(
    ops.spectral_map_pool(phi, f, route="gram"),
    ops.spectral_map(ops.cooccurrence(phi), f),
    atol=1e-12,
  )
  families.check_gradients(lambda x: ops.spectral_map_pool(x, f), (phi,))


@pytest.mark.parametrize("spectrum", [(0.9, 0.4, 0.1), (0.4, 0.4, 0.1), (0.5, 0.5, 0)])
def test_learned_diffusion(x64, rng, spectrum):
  m, _ = families.matrix_with_spectrum(rng, spectrum)

  def diffuse(m, time):
    def f(x):
      positive = x > 1e-9
      return jnp.where(positive, jnp.exp(-time / jnp.where(positive, x, 1)), 0)

    return ops.spectral_map(m, f)

  families.check_gradients(diffuse, (m, 0.3))


def test_whitening(x64, rng):
  m = ops.cooccurrence(jnp.asarray(rng.normal(size=(20, 4))))
  root = ops.spectral_map(m, lambda x: 1 / jnp.sqrt(x))
  np.testing.assert_allclose(root @ m @ root, np.eye(4), atol=1e-12)
  families.check_gradients(lambda m: ops.spectral_map(m, jax.lax.rsqrt), (m,))


def test_derivative_of_your_own(x64, rng):
  """`df` is used: here a wrong one, on purpose."""
  m, _ = families.matrix_with_spectrum(rng, [1.0, 1.0, 1.0])

  def twice(x):
    return 2 * jnp.cos(x)

  right, wrong = (
    jax.grad(lambda m, df=df: jnp.trace(ops.spectral_map(m, jnp.sin, df)))(m)
    for df in (None, twice)
  )
  np.testing.assert_allclose(wrong, 2 * right, atol=1e-12)


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap])
def test_transformations(x64, rng, transform):
  m = jnp.asarray(rng.normal(size=(3, 4, 4)))
  m = m @ m.mT
  f = jax.grad(
    lambda m, t: jnp.sum(ops.spectral_map(m, lambda x: x**t)), argnums=(0, 1)
  )
  t = jnp.full(3, 0.4) if transform is jax.vmap else 0.4
  for a, b in zip(transform(f)(m, t), f(m, 0.4), strict=True):
    np.testing.assert_allclose(jnp.sum(a), jnp.sum(b), rtol=1e-9)


@pytest.mark.parametrize(
  "f,psi",
  [
    (jnp.tanh, mpmath.tanh),
    (lambda x: jnp.tanh(1e3 * x), lambda x: mpmath.tanh(1000 * x)),
    (jnp.sqrt, mpmath.sqrt),
    (jnp.exp, mpmath.exp),
    (lambda x: jnp.sin(30 * x), lambda x: mpmath.sin(30 * x)),
  ],
)
def test_divided_differences(x64, f, psi):
  """To 1e-9 of themselves, or 1e-12 of the largest slope."""
  x, y = np.array(list(test_spectrum.pairs("gamma"))).T
  got = _spectral_map._divided_difference(f, jax.vmap(jax.grad(f)), x, y)
  want = [
    test_spectrum.exact(lambda x, _: psi(x), a, b, 0) for a, b in zip(x, y, strict=True)
  ]
  np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12 * max(map(abs, want)))


@pytest.mark.parametrize(
  "call,error,match",
  [
    (lambda p: ops.spectral_map_pool(p, jnp.cos), ValueError, "`f` is 1.0 at 0"),
    (
      lambda p: jax.jit(lambda p: ops.spectral_map_pool(p, jnp.exp))(p),
      ValueError,
      "`f` is 1.0 at 0",
    ),
    (lambda p: ops.spectral_map_pool(p, jnp.log), ValueError, "-inf at 0"),
    (lambda p: ops.spectral_map_pool(p, jnp.tanh, route="matmul"), ValueError, "SigmE"),
    (lambda p: ops.spectral_map_pool(p, jnp.tanh, route="x"), ValueError, "'x'"),
    (lambda p: ops.spectral_map(p, jnp.tanh), ValueError, "square"),
    (
      lambda p: ops.spectral_map(p @ p.T, lambda x: jnp.stack([x, x])),
      TypeError,
      r"`f` returns.*\(2,\)",
    ),
    (
      lambda p: ops.spectral_map(p @ p.T, jnp.sin, lambda x: 3),
      TypeError,
      "`df` returns.*int32",
    ),
  ],
)
def test_bad_input(call, error, match):
  with pytest.raises(error, match=match):
    call(jnp.ones((3, 4)))
