"""Operators and their derivatives, lowered for machines that are not here."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import ops
from tests import platforms
from tests.ops.calls import CALLS
from tests.ops.calls import PHI

ROUTES = {
  f"{name}, {route}": (functools.partial(pool, route=route), PHI)
  for name, pool, routes in (
    (
      "spectral_gamma_pool",
      functools.partial(ops.spectral_gamma_pool, power=0.5),
      ("gram", "direct", "matmul"),
    ),
    (
      "spectral_maxexp_pool",
      functools.partial(ops.spectral_maxexp_pool, eta=20),
      ("gram", "direct", "matmul"),
    ),
    (
      "spectral_sigme_pool",
      functools.partial(ops.spectral_sigme_pool, eta_prime=1e3),
      ("gram", "direct", "matmul"),
    ),
    (
      "spectral_asinhe_pool",
      functools.partial(ops.spectral_asinhe_pool, gamma_prime=3.0),
      ("gram", "direct"),
    ),
  )
  for route in routes
}
OTHERS = {
  "spatial_coordinates": (lambda a: ops.spatial_coordinates(3, 4, 5, 0.3, a), 1.0),
  "tensor_feature_map": (lambda phi: ops.tensor_feature_map(phi, 3), PHI),
  "spectral_sigme_pool, learned": (
    lambda e: ops.spectral_sigme_pool(PHI, e, max_eta_prime=1e4),
    1e3,
  ),
}


def calls():
  """Functions of one floating-point argument, and the argument."""
  for name, args in CALLS.items():
    f = getattr(ops, name)
    if isinstance(args[0], np.ndarray):
      yield name, (lambda x, f=f, rest=args[1:]: f(x, *rest)), args[0]
  for name, (f, x) in {**ROUTES, **OTHERS}.items():
    yield name, f, x


@pytest.mark.parametrize(("f", "x"), [pytest.param(f, x, id=n) for n, f, x in calls()])
def test_forward_and_backward(f, x):
  def both(x):
    value, vjp = jax.vjp(f, x)
    return value, vjp(jax.tree.map(jnp.ones_like, value))

  assert platforms.lowered(both, jnp.asarray(x, jnp.float32)) == platforms.ALL


@pytest.mark.parametrize("platform", platforms.ALL)
@pytest.mark.parametrize("name", ["spectral_gamma_pool", "spectral_sigme_pool"])
def test_auto_decomposes_on_a_cpu_only(name, platform):
  pool = functools.partial(getattr(ops, name), *CALLS[name])
  assert platforms.decomposes(pool, platform) == (platform == "cpu")


@pytest.mark.parametrize("platform", platforms.ALL)
def test_matrices_are_decomposed_everywhere(platform):
  matrix_power = functools.partial(ops.spectral_gamma, *CALLS["spectral_gamma"])
  assert platforms.decomposes(matrix_power, platform)
