import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import ops
from pnjax.ops import _elementwise
from tests.ops import families

# Table 1: ψ(p) and ψ'(p) as written in the paper, for p in (0, 1).
TABLE_1 = {
  "gamma": (lambda p, g: p**g, lambda p, g: g * p ** (g - 1)),
  "maxexp": (lambda p, n: 1 - (1 - p) ** n, lambda p, n: n * (1 - p) ** (n - 1)),
  "asinhe": (
    lambda p, g: np.log(g * p + np.sqrt(1 + g**2 * p**2)),
    lambda p, g: g / np.sqrt(1 + g**2 * p**2),
  ),
  "sigme": (
    lambda p, n: 2 / (1 + np.exp(-n * p)) - 1,
    lambda p, n: 2 * n * np.exp(-n * p) / (1 + np.exp(-n * p)) ** 2,
  ),
}


def of_probability(name, parameter):
  """The operator on single entries p, without the trace and λ."""
  return {
    "gamma": lambda p: ops.gamma(p, parameter, lam=0.0),
    # diag(p, 1 − p) has trace 1.
    "maxexp": lambda p: ops.maxexp(jnp.diag(jnp.stack([p, 1 - p])), parameter, lam=0.0)[
      0, 0
    ],
    "asinhe": lambda p: ops.asinhe(p, parameter),
    "sigme": lambda p: ops.sigme(p, parameter, trace_normalize=False),
  }[name]


@pytest.mark.parametrize("name", TABLE_1)
def test_table_1(x64, name):
  value, slope = TABLE_1[name]
  parameter = families.ELEMENTWISE[name][1]
  p = np.array([1e-3, 0.1, 0.5, 0.9])
  psi = jax.value_and_grad(of_probability(name, parameter))
  got_value, got_slope = jax.jit(jax.vmap(psi))(p)
  np.testing.assert_allclose(got_value, value(p, parameter), rtol=1e-10)
  np.testing.assert_allclose(got_slope, slope(p, parameter), rtol=1e-10)


@pytest.mark.parametrize("name", ["asinhe", "sigme"])
def test_table_1_surrogates_are_odd_with_finite_slope(x64, name):
  psi = of_probability(name, 5.0)
  np.testing.assert_allclose(psi(-0.3), -psi(0.3), rtol=1e-15)
  want = 5.0 if name == "asinhe" else 2.5
  np.testing.assert_allclose(jax.grad(psi)(0.0), want, rtol=1e-15)


def test_table_1_slope_of_gamma_at_zero_grows_without_bound(x64):
  slope = jax.vmap(jax.grad(lambda p, lam: ops.gamma(p, 0.5, lam)), (None, 0))
  slopes = slope(0.0, np.array([1e-2, 1e-6, 1e-12]))
  np.testing.assert_allclose(slopes, [5.0, 500.0, 5e5], rtol=1e-10)


def test_gamma_of_negative_entries_is_zero_not_nan():
  value, grad = jax.value_and_grad(lambda m: ops.gamma(m, 0.5))(-1.0)
  assert (value, grad) == (0.0, 0.0)


def test_trace_normalization_by_hand(x64):
  m = np.array([[2.0, 1.0], [1.0, 2.0]])
  np.testing.assert_allclose(
    ops.maxexp(m, 3.0, lam=1.0), 1 - (1 - m / 5) ** 3, rtol=1e-14
  )
  np.testing.assert_allclose(
    ops.sigme(m, 3.0, lam=1.0), np.tanh(1.5 * m / 5), rtol=1e-14
  )
  np.testing.assert_allclose(
    ops.sigme(m, 3.0, lam=1.0, trace_normalize=False), np.tanh(1.5 * m), rtol=1e-14
  )


def test_first_order(x64):
  mean = np.array([0.1, 0.3, 0.0])
  np.testing.assert_allclose(
    ops.first_order_maxexp(mean, 4.0, lam=0.1),
    1 - (1 - mean / 0.5) ** 4,
    rtol=1e-14,
  )
  np.testing.assert_allclose(
    ops.gamma(mean, 0.5, lam=0.1), np.sqrt(mean + 0.1), rtol=1e-14
  )
  np.testing.assert_allclose(ops.asinhe(mean, 2.0), np.arcsinh(2 * mean), rtol=1e-14)
  np.testing.assert_allclose(
    ops.sigme(mean, 2.0, trace_normalize=False), np.tanh(mean), rtol=1e-14
  )


def test_trace_term_is_exact_unlike_the_matrix_t_of_the_paper(x64, rng):
  """T keeps only the diagonal of M in the second term."""
  phi = np.abs(rng.normal(size=(9, 6)))
  m = phi.T @ phi / 9
  g = rng.normal(size=(6, 6))
  got = jax.jit(jax.grad(lambda m: jnp.sum(g * ops.sigme(m, 12.0))))(m)

  t = np.trace(m) + 1e-6
  slope = 12 / 2 * (1 - np.tanh(12 / 2 * m / t) ** 2)
  d = g * slope
  exact = d / t - np.eye(6) * np.sum(d * m) / t**2
  np.testing.assert_allclose(got, exact, rtol=1e-10)

  in_the_paper = d * (1 / t - m * np.eye(6) / t**2)
  error = np.linalg.norm(in_the_paper - exact) / np.linalg.norm(exact)
  assert error > 0.05


@pytest.mark.parametrize("name", families.ELEMENTWISE)
def test_gradients(x64, rng, name):
  f, parameter = families.ELEMENTWISE[name]
  m = ops.cooccurrence(np.abs(rng.normal(size=(2, 5, 4))))
  families.check_second_derivatives(f, (m, parameter))


@pytest.mark.parametrize("name", families.ELEMENTWISE_POOLS)
def test_gradients_of_pools(x64, rng, name):
  f, parameter = families.ELEMENTWISE_POOLS[name]
  phi = jnp.asarray(np.abs(rng.normal(size=(2, 5, 4))))
  families.check_second_derivatives(f, (phi, parameter), ("rev",))


def test_gradients_of_the_other_forms(x64, rng):
  m = ops.cooccurrence(np.abs(rng.normal(size=(5, 4))))
  phi = jnp.asarray(rng.normal(size=(5, 4)))
  without_trace = functools.partial(ops.sigme, trace_normalize=False)
  families.check_second_derivatives(without_trace, (m, 3.0))
  families.check_second_derivatives(
    functools.partial(ops.sigme_pool, trace_normalize=False), (phi, 3.0), ("rev",)
  )
  families.check_second_derivatives(ops.first_order_maxexp, (m[0], 3.0))
  families.check_second_derivatives(lambda lam: ops.gamma(m, 0.5, lam), (0.1,))
  families.check_second_derivatives(lambda lam: ops.maxexp(m, 3.0, lam), (0.1,))


@pytest.mark.parametrize(
  "name,shape",
  [
    *((name, (2, 5, 8)) for name in families.ELEMENTWISE_POOLS),
    ("sigme", (3, 600)),  # More than one block of `weighted_symmetric_product`.
  ],
)
def test_pools_equal_the_composition(x64, rng, name, shape):
  phi = np.abs(rng.normal(size=shape))
  g = rng.normal(size=(*shape[:-2], shape[-1], shape[-1]))
  pool, parameter = families.ELEMENTWISE_POOLS[name]
  f, _ = families.ELEMENTWISE[name]

  def composition(phi, parameter):
    return f(ops.cooccurrence(phi), parameter)

  got, want = (
    jax.jit(functools.partial(families.value_and_derivatives, op))(phi, parameter, g)
    for op in (pool, composition)
  )
  for a, b in zip(got, want, strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("eta", [0.01, 0.5, 1.0, 3.0])
def test_maxexp_of_certainty_is_one(eta):
  p = jnp.ones(())
  value, slope = jax.value_and_grad(_elementwise.maxexp_of_probability, (0, 1))(p, eta)
  assert value == 1
  # The slope by p is infinite for η < 1, where that of the largest p < 1 is taken.
  below = jax.grad(_elementwise.maxexp_of_probability)(jnp.nextafter(p, 0), eta)
  np.testing.assert_allclose(slope[0], below if eta <= 1 else 0, rtol=1e-5)
  assert slope[1] == 0


def test_spectral_maxexp_of_one_vector_is_its_projection(rng):
  """Its eigenvalue is 1, and 0 ** η is 0 for any η > 0."""
  x = jnp.asarray(rng.uniform(0.5, 1, (1, 4)), jnp.float32)
  expected = x.T @ x / jnp.sum(jnp.square(x))
  for route in ("gram", "direct"):
    out, pull_back = jax.vjp(
      lambda x, route=route: ops.spectral_maxexp_pool(x, 0.01, 0.0, route), x
    )
    np.testing.assert_allclose(out, expected, atol=0.1 if route == "direct" else 1e-5)
    assert np.isfinite(pull_back(jnp.ones_like(out))[0]).all()


def test_maxexp_of_a_single_active_channel(rng):
  """M/tr M = 1 in float32, where the chain rule through log(1 − p) gives NaN."""
  phi = jnp.zeros((7, 3)).at[:, 1].set(100.0)

  @jax.jit
  def value_and_gradient(phi, eta):
    value, vjp = jax.vjp(lambda p: ops.maxexp(ops.cooccurrence(p), eta), phi)
    return value, vjp(jnp.ones((3, 3)))[0]

  for eta in (1.0, 20.0, 0.5):
    value, gradient = value_and_gradient(phi, eta)
    np.testing.assert_allclose(value, np.diag([0, 1, 0]), atol=1e-6)
    assert jnp.all(jnp.isfinite(gradient))
  # For η = 1, the slope at p = 1 is 1, and only the trace term contributes to the
  # derivative for the other channels.
  gradient = jax.jit(jax.grad(lambda m: ops.maxexp(m, 1.0)[1, 1]))(
    ops.cooccurrence(phi)
  )
  np.testing.assert_allclose(np.diagonal(gradient), [-1e-4, 0, -1e-4], atol=1e-10)


@pytest.mark.parametrize(
  "call,error,match",
  [
    (lambda: ops.maxexp(jnp.ones((2, 3)), 2.0), ValueError, "square"),
    (lambda: ops.sigme(jnp.ones(3), 2.0), ValueError, "square"),
    (lambda: ops.maxexp(jnp.ones((2, 2), int), 2.0), TypeError, "int32"),
    (lambda: ops.gamma(jnp.ones((2, 2), int), 2.0), TypeError, "int32"),
    (lambda: ops.gamma(jnp.ones((2, 2)), 0.0), ValueError, "power.*> 0"),
    (lambda: ops.gamma(jnp.ones((2, 2)), 0.5, -1.0), ValueError, "lam.*>= 0"),
    (lambda: ops.maxexp(jnp.ones((2, 2)), -1.0), ValueError, "eta.*> 0"),
    (lambda: ops.asinhe(jnp.ones((2, 2)), 0.0), ValueError, "gamma_prime"),
    (lambda: ops.sigme(jnp.ones((2, 2)), 0.0), ValueError, "eta_prime"),
    (lambda: ops.sigme(jnp.ones((2, 2)), jnp.ones(2)), ValueError, "scalar.*vmap"),
    (lambda: ops.first_order_maxexp(1.0, 2.0), ValueError, "vectors"),
    (lambda: ops.sigme_pool(jnp.ones(3), 2.0), ValueError, r"\[..., N, d\]"),
  ],
)
def test_bad_input(call, error, match):
  with pytest.raises(error, match=match):
    call()
