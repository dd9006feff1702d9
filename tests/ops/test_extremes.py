"""Scales from 1e-15 to 1e15, zero maps and half precision, in every operator."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import ops
from tests.ops import families


def of_features(f):
  return lambda phi, parameter: f(ops.cooccurrence(phi), parameter)


OPERATORS = {
  **{f"{n} pool": v for n, v in families.ELEMENTWISE_POOLS.items()},
  **{n: (of_features(f), p) for n, (f, p) in families.ELEMENTWISE.items()},
  **{
    f"spectral {n} pool": (functools.partial(f, route="gram"), p)
    for n, (f, p) in families.SPECTRAL_POOLS.items()
  },
  **{f"spectral {n}": (of_features(f), p) for n, (f, p) in families.SPECTRAL.items()},
  "maxexp products": (lambda phi, _: ops.spectral_maxexp_pool(phi, 20), 1.0),
  "newton_schulz_sqrt": (of_features(lambda m, _: ops.newton_schulz_sqrt(m)), 1.0),
  "matrix_log": (of_features(ops.matrix_log), 1e-3),
  "signed_sqrt": (of_features(lambda m, _: ops.signed_sqrt(m)), 1.0),
  "l2_normalize": (of_features(lambda m, _: ops.l2_normalize(m, (-2, -1))), 1.0),
  "first_order_maxexp": (
    lambda phi, p: ops.first_order_maxexp(jnp.mean(phi, axis=-2, keepdims=True), p),
    5.0,
  ),
  "trace_compensate": (
    lambda phi, p: ops.trace_compensate(
      ops.sigme_pool(phi, 9.0), ops.cooccurrence(phi), p
    ),
    0.5,
  ),
}


def some_cotangent(f, phi, parameter):
  shape = jax.eval_shape(f, phi, parameter).shape
  return np.cos(np.arange(np.prod(shape))).reshape(shape).astype(np.float32)


@pytest.mark.parametrize("name", OPERATORS)
def test_finite_for_any_features_at_any_scale(rng, name):
  f, parameter = OPERATORS[name]
  for kind in families.FEATURES:
    phi = families.features(rng, kind, np.float32)
    g = some_cotangent(f, phi, parameter)
    for scale in np.float32([1e-15, 1.0, 1e15]):
      for x in families.value_and_derivatives(f, phi * scale, parameter, g):
        assert np.all(np.isfinite(x)), (kind, scale)


@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1e2, 1e6])
@pytest.mark.parametrize("name", OPERATORS)
def test_accurate_in_float32_from_1e_6_to_1e6(rng, name, scale):
  f, parameter = OPERATORS[name]
  # M of full rank: a derivative with respect to M of rank N < d has a large part
  # that features cannot see and float32 cannot take out again. The pools can, and
  # are tried with N < d.
  kind = "wide" if "pool" in name else "tall"
  phi = families.features(rng, kind, np.float32) + np.float32(0.1)
  phi = phi * np.float32(scale)
  g = some_cotangent(f, phi, parameter)
  got = families.value_and_derivatives(f, phi, parameter, g)
  with jax.enable_x64(True):
    want = families.value_and_derivatives(f, phi.astype(np.float64), parameter, g)
    want = [np.asarray(x) for x in want]
  for a, b in zip(got[:2], want[:2], strict=True):
    error = np.max(np.abs(np.asarray(a, np.float64) - b)) / np.max(np.abs(b))
    assert error < 1e-3


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("name", OPERATORS)
def test_half_precision_is_computed_in_float32(rng, name, dtype):
  f, parameter = OPERATORS[name]
  phi = jnp.asarray(families.features(rng, "wide", np.float32)).astype(dtype)
  g = some_cotangent(f, phi, parameter)
  value, phi_bar, _ = families.value_and_derivatives(f, phi, parameter, g)
  assert value.dtype == phi_bar.dtype == dtype
  if "pool" in name or name == "maxexp products":
    full = families.value_and_derivatives(f, phi.astype(jnp.float32), parameter, g)
    np.testing.assert_array_equal(value, full[0].astype(dtype))


@pytest.mark.parametrize("name", OPERATORS)
def test_jit_vmap_and_batch_axes_agree(rng, name):
  f, parameter = OPERATORS[name]
  phi = jnp.asarray(np.maximum(rng.normal(size=(2, 3, 4, 6)), 0), jnp.float32)
  f = jax.jit(f)
  batched = f(phi, parameter)
  assert batched.shape[:2] == (2, 3)
  mapped = jax.jit(jax.vmap(jax.vmap(f, (0, None)), (0, None)))(phi, parameter)
  np.testing.assert_allclose(mapped, batched, rtol=1e-4, atol=1e-5)
  single = f(phi[1, 2], parameter)
  np.testing.assert_allclose(single, batched[1, 2], rtol=1e-4, atol=1e-5)

  def loss(phi, parameter):
    return jnp.sum(jnp.sin(f(phi, parameter)))

  grads = jax.jit(jax.vmap(jax.grad(loss), (0, None)))(phi, parameter)
  np.testing.assert_allclose(
    grads[1], jax.jit(jax.grad(loss))(phi[1], parameter), rtol=1e-3, atol=1e-4
  )


@pytest.mark.parametrize("name", OPERATORS)
def test_nan_stays_nan(rng, name):
  """A broken backbone is not to look healthy."""
  f, parameter = OPERATORS[name]
  phi = np.abs(rng.standard_normal((1, 5, 4))).astype(np.float32)
  phi[0, 0, 0] = np.nan
  assert jnp.any(jnp.isnan(f(jnp.asarray(phi), jnp.float32(parameter))))
