"""Every operator from 1e-15 to 1e15, in half precision, under jit and vmap.

All inputs are batches of 8 kinds of features at 4 scales, so that each operator is
compiled for few shapes.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import ops
from tests.ops import families

# Name: (function of features, value of its parameter).
SPECTRAL_POOLS = {
  **{
    f"spectral {n} pool": (functools.partial(f, route="gram"), p)
    for n, (f, p) in families.SPECTRAL_POOLS.items()
  },
  "spectral maxexp products": (lambda phi, _: ops.spectral_maxexp_pool(phi, 20), 1.0),
}
POOLS = {
  **SPECTRAL_POOLS,
  **{f"{n} pool": v for n, v in families.ELEMENTWISE_POOLS.items()},
  "cooccurrence": (lambda phi, _: ops.cooccurrence(phi), 1.0),
}

# Name: (function of co-occurrence matrices, value of its parameter).
MATRIX_OPERATORS = {
  **families.ELEMENTWISE,
  **{f"spectral {n}": v for n, v in families.SPECTRAL.items()},
  "newton_schulz_sqrt": (lambda m, _: ops.newton_schulz_sqrt(m), 1.0),
  "pade_sqrt": (lambda m, _: ops.pade_sqrt(m), 1.0),
  "matrix_log": (ops.matrix_log, 1e-3),
  "signed_sqrt": (lambda m, _: ops.signed_sqrt(m), 1.0),
  "l2_normalize": (lambda m, _: ops.l2_normalize(m, (-2, -1)), 1.0),
  "first_order_maxexp": (ops.first_order_maxexp, 5.0),
  "trace_compensate": (
    lambda m, power: ops.trace_compensate(jnp.ones_like(m), m, power),
    0.5,
  ),
}

OPERATORS = POOLS | MATRIX_OPERATORS


def inputs(rng, name, kinds, scales, offset=0.0):
  """Scaled features, or their co-occurrence matrices: one batch axis of 32."""
  phi = np.stack([families.features(rng, kind, np.float32) for kind in kinds])
  phi = np.float32(scales)[:, None, None, None] * (phi + np.float32(offset))
  phi = phi.reshape(-1, *phi.shape[2:])
  return phi if name in POOLS else phi.mT @ phi / np.float32(phi.shape[-2])


def cotangent(dtype=np.float32):
  return np.cos(np.arange(32 * 81)).reshape(32, 9, 9).astype(dtype)


@pytest.mark.parametrize("name", OPERATORS)
def test_finite_for_any_features_at_any_scale(rng, name):
  f, parameter = OPERATORS[name]
  # Element-wise pools do not depend on the number of vectors.
  few_shapes = name in POOLS and name not in SPECTRAL_POOLS
  for kinds in [families.WIDE] if few_shapes else [families.WIDE, ["tall"] * 8]:
    # At 1e10, the square of the trace overflows.
    x = inputs(rng, name, kinds, (1e-15, 1, 1e10, 1e15))
    out = families.value_and_derivatives(f, x, parameter, cotangent())
    for array in out[:2]:
      finite = np.isfinite(array).all(axis=(1, 2)).reshape(4, 8)
      assert np.all(finite), dict(zip(kinds, finite.T, strict=True))
    assert np.isfinite(out[2])


@pytest.mark.parametrize("name", OPERATORS)
def test_accurate_in_float32_from_1e_6_to_1e6(rng, name):
  """Eager with one batch axis, against float64 under jit, vmap and two batch axes."""
  f, parameter = OPERATORS[name]
  derivatives = functools.partial(families.value_and_derivatives, f)
  # Float32 cannot resolve the zero eigenvalues of a matrix of rank N < d. The pools
  # avoid the problem, and are tested with N < d.
  kind = "wide" if name in POOLS else "tall"
  x = inputs(rng, name, [kind] * 8, (1e-6, 1e-2, 1e2, 1e6), offset=0.1)
  g = cotangent()
  got = derivatives(x, parameter, g)
  with jax.enable_x64(True):
    want = jax.jit(jax.vmap(derivatives, (0, None, 0)))(
      x.astype(np.float64).reshape(4, 4, 2, *x.shape[1:]),
      parameter,
      g.reshape(4, 4, 2, 9, 9),
    )
    want = [np.asarray(array) for array in want]
  for a, b in zip(got[:2], want[:2], strict=True):
    b = b.reshape(a.shape)
    error = np.max(np.abs(a - b), axis=(1, 2)) / np.max(np.abs(b), axis=(1, 2))
    assert np.all(error < 1e-3), error
  largest = np.max(np.abs(want[2]))
  np.testing.assert_allclose(got[2], np.sum(want[2]), atol=1e-3 * largest)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("name", OPERATORS)
def test_half_precision_is_computed_in_float32(rng, name, dtype):
  f, parameter = OPERATORS[name]
  x = inputs(rng, name, families.WIDE, (0.1, 0.5, 1, 2)).astype(dtype)
  g = cotangent(dtype)
  *got, _ = families.value_and_derivatives(f, x, parameter, g)
  *want, _ = families.value_and_derivatives(f, x.astype(np.float32), parameter, g)
  for a, b in zip(got, want, strict=True):
    assert a.dtype == dtype
    np.testing.assert_array_equal(a, b.astype(dtype))


@pytest.mark.parametrize("name", OPERATORS)
def test_nan_propagates_within_its_batch_entry(rng, name):
  """A diverged backbone must not go unnoticed."""
  f, parameter = OPERATORS[name]
  x = inputs(rng, name, families.WIDE, (0.5, 1, 2, 4))
  x[19, 0, 0] = np.nan
  value, *_ = families.value_and_derivatives(f, x, parameter, cotangent())
  has_nan = np.isnan(value).any(axis=(1, 2))
  np.testing.assert_array_equal(has_nan, np.arange(32) == 19)
