import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import ops
from tests.ops import families

binomial = jax.jit(ops.probability_at_least_one, static_argnums=1)
multinomial = jax.jit(ops.probability_at_least_one_multinomial, static_argnums=3)


def test_binomial_by_hand(x64):
  assert binomial(0.5, 3) == 0.875
  np.testing.assert_allclose(binomial(1e-12, 5), 5e-12, rtol=1e-11)
  np.testing.assert_array_equal(binomial(np.array([0.0, 1.0]), 4), [0.0, 1.0])


def test_eq_8_binomial_sum(x64):
  p, n = 0.2, 9
  terms = [math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(1, n + 1)]
  np.testing.assert_allclose(binomial(p, n), sum(terms), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 7, 40])
def test_prop_4_multinomial_equals_binomial(x64, n):
  p = np.array([0.0, 0.01, 0.2, 0.5])
  q, s = np.array([0.3, 0.5, 0.0, 0.25]), np.array([0.7, 0.1, 0.3, 0.25])
  np.testing.assert_allclose(
    multinomial(p, q, s, n),
    binomial(p, n),
    rtol=1e-10,
    atol=1e-14,
  )


def test_many_trials_do_not_overflow_in_float32():
  got = multinomial(0.01, 0.3, 0.2, 100)
  np.testing.assert_allclose(got, 1 - 0.99**100, rtol=1e-3)


def test_prop_4_against_random_draws(rng):
  n, draws = 12, 200_000
  p, q, s = 0.06, 0.2, 0.1
  outcomes = rng.choice(4, size=(draws, n), p=[p, q, s, 1 - p - q - s])
  first = np.isin(outcomes, (0, 1))
  second = np.isin(outcomes, (0, 2))
  counted = np.mean(np.any(first & second, axis=1))
  expected = float(binomial(p, n))
  deviation = np.sqrt(expected * (1 - expected) / draws)
  assert abs(counted - expected) < 4 * deviation
  assert abs(multinomial(p, q, s, n) - expected) < 1e-5


def test_gradients(x64):
  p, q, s = np.array([0.1, 0.3]), np.array([0.2, 0.3]), np.array([0.4, 0.2])
  modes = ("fwd", "rev")
  families.check_gradients(lambda p: binomial(p, 5), (p,), modes)
  families.check_gradients(lambda *pqs: multinomial(*pqs, 5), (p, q, s), modes)


def test_slope_at_zero_is_the_number_of_trials(x64):
  np.testing.assert_allclose(jax.grad(multinomial)(0.0, 0.3, 0.2, 6), 6, rtol=1e-10)
  np.testing.assert_allclose(jax.grad(binomial)(0.0, 6), 6, rtol=1e-15)


@pytest.mark.parametrize(
  "call,error,match",
  [
    (lambda: ops.probability_at_least_one(0.1, 0), ValueError, "`n` is 0"),
    (lambda: ops.probability_at_least_one(0.1, 2.0), TypeError, "Python integer"),
    (lambda: ops.probability_at_least_one(1, 2), TypeError, "int32"),
    (
      lambda: ops.probability_at_least_one_multinomial(0.1, jnp.ones(2), 0.1, 2),
      ValueError,
      "same",
    ),
  ],
)
def test_bad_input(call, error, match):
  with pytest.raises(error, match=match):
    call()
