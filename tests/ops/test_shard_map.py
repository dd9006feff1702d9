"""Operators with loops or derivatives of their own inside `jax.shard_map`.

Both must keep track of what varies over devices.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import ops
from tests.ops.calls import CALLS

WIDE = np.random.default_rng(0).normal(size=(2, 3, 600)).astype(np.float32)
PRODUCTS = ("spectral_gamma_pool", "spectral_maxexp_pool", "spectral_sigme_pool")
SHARDED = {
  **{
    name: (getattr(ops, name), args)
    for name, args in CALLS.items()
    if name.endswith(("_pool", "_forms")) or name.startswith(("spectral", "triu"))
  },
  # These take more than one block of columns.
  "sigme_pool, wide": (ops.sigme_pool, (WIDE, 300.0)),
  "spectral_gamma_pool, wide": (ops.spectral_gamma_pool, (WIDE, 0.5)),
  **{
    f"{name}, matmul": (functools.partial(getattr(ops, name), route="matmul"), args)
    for name, args in CALLS.items()
    if name in PRODUCTS
  },
}


@pytest.mark.parametrize("name", SHARDED)
def test_forward_and_backward(name):
  f, (x, *rest) = SHARDED[name]
  # All shards share the directions of forms.
  shared = [a for a in rest if isinstance(a, np.ndarray)]
  others = rest[len(shared) :]

  def both(x, *shared):
    value, vjp = jax.vjp(lambda x, *shared: f(x, *shared, *others), x, *shared)
    x_bar, *shared_bar = vjp(jnp.cos(value))
    return (value, x_bar), shared_bar

  by_batch, everywhere = jax.P("batch"), jax.P()
  sharded = jax.shard_map(
    both,
    mesh=jax.make_mesh((2,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,)),
    in_specs=(by_batch, *[everywhere] * len(shared)),
    out_specs=(by_batch, everywhere),
  )
  expected = jax.tree.leaves(jax.jit(both)(x, *shared))
  got = jax.tree.leaves(jax.jit(sharded)(x, *shared))
  for e, g in zip(expected, got, strict=True):
    np.testing.assert_allclose(g, e, rtol=1e-4, atol=1e-5)


def test_learned_parameter(rng):
  """Its gradient is the sum over all shards."""
  phi = np.abs(rng.normal(size=(2, 3, 4))).astype(np.float32)

  def gradient(phi, eta_prime):
    pool = (ops.sigme_pool, ops.spectral_sigme_pool)
    return jax.grad(lambda e: sum(jnp.sum(f(phi, e)) for f in pool))(eta_prime)

  sharded = jax.shard_map(
    gradient,
    mesh=jax.make_mesh((2,), ("batch",), axis_types=(jax.sharding.AxisType.Auto,)),
    in_specs=(jax.P("batch"), jax.P()),
    out_specs=jax.P(),
  )
  eta_prime = jnp.float32(3.0)
  expected = gradient(phi, eta_prime)
  np.testing.assert_allclose(jax.jit(sharded)(phi, eta_prime), expected, rtol=1e-4)
