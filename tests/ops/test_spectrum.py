"""Divided differences compared with 320-digit arithmetic."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from pnjax.ops import _spectrum

FUNCTIONS = {
  "gamma": (_spectrum.GAMMA, lambda x, p: x**p, (0.3, 0.5, 0.9)),
  "maxexp": (_spectrum.MAXEXP, lambda x, p: 1 - (1 - x) ** p, (1.0, 2.5, 80.0)),
  "asinhe": (_spectrum.ASINHE, lambda x, p: mpmath.asinh(p * x), (0.1, 1.0, 1e4)),
  "sigme": (_spectrum.SIGME, lambda x, p: mpmath.tanh(p * x / 2), (1.0, 30.0, 1e4)),
  "log": (_spectrum.LOG, lambda x, p: mpmath.log(x + p), (1e-6, 0.1)),
}


def exact(psi, x, y, parameter):
  with mpmath.workdps(320):
    x, y, p = mpmath.mpf(x), mpmath.mpf(y), mpmath.mpf(parameter)
    if x == y:
      return float(mpmath.diff(lambda z: psi(z, p), x))
    return float((psi(x, p) - psi(y, p)) / (x - y))


def pairs(name):
  points = [1e-12, 1e-5, 0.01, 0.3, 0.999]
  for x in points:
    for ratio in (1.0, 1 + 1e-15, 1 + 1e-9, 1 - 1e-4, 0.5, 1e-6):
      yield x, x * ratio
    if name in ("asinhe", "sigme"):
      yield x, -x
      yield -x, -x * (1 + 1e-9)
      yield x, -x * 1e-3
    yield x, 0.0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_divided_differences(x64, name):
  function, psi, parameters = FUNCTIONS[name]
  divided_difference = jax.jit(function.divided_difference)
  x, y = np.array(list(pairs(name))).T
  for parameter in parameters:
    want = [exact(psi, a, b, parameter) for a, b in zip(x, y, strict=True)]
    for a, b in ((x, y), (y, x)):
      got = divided_difference(a, b, np.float64(parameter))
      np.testing.assert_allclose(got, want, rtol=2e-12)


@pytest.mark.parametrize("name", ["gamma", "maxexp", "asinhe", "sigme"])
def test_power_normalizations_vanish_at_zero(name):
  """The route through the Gram matrix relies on it: it skips zero eigenvalues."""
  function, _, parameters = FUNCTIONS[name]
  for parameter in parameters:
    assert function.value(jnp.float32(0.0), jnp.float32(parameter)) == 0


def test_asinhe_does_not_overflow():
  big = jnp.float32(1e37)
  got = _spectrum.ASINHE.divided_difference(big, big, jnp.float32(1.0))
  np.testing.assert_allclose(got, 1e-37, rtol=1e-5)
  got = _spectrum.ASINHE.divided_difference(big, big / 10, jnp.float32(1.0))
  np.testing.assert_allclose(got, np.log(10) / 9e36, rtol=1e-5)


def test_gamma_omits_the_zero_block(x64):
  zero, power = jnp.float64(0.0), jnp.float64(0.5)
  assert _spectrum.GAMMA.divided_difference(zero, zero, power) == 0
  got = _spectrum.GAMMA.divided_difference(jnp.float64(4.0), zero, power)
  assert got == 0.5
