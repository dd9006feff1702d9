import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax.models import _convolution


@pytest.mark.parametrize(
  "batch, side, channels, size, stride, padding",
  [
    (2, 8, 4, 1, 1, 0),
    (2, 9, 16, 1, 2, 0),
    (3, 12, 3, 7, 2, 3),
    (2, 10, 16, 3, 1, 1),
    (2, 11, 16, 3, 2, 1),
    (2, 31, 3, 11, 4, 2),
  ],
)
def test_conv_equals_xla(rng, batch, side, channels, size, stride, padding):
  x = jnp.asarray(rng.standard_normal((batch, side, side, channels)), jnp.float32)
  w = jnp.asarray(rng.standard_normal((size, size, channels, 8)), jnp.float32)
  side_out = (side + 2 * padding - size) // stride + 1
  g = jnp.asarray(rng.standard_normal((batch, side_out, side_out, 8)), jnp.float32)

  def value_and_gradients(conv):
    @jax.jit
    def run(x, w, g):
      y, vjp = jax.vjp(lambda x, w: conv(x, w, stride, padding), x, w)
      return y, *vjp(g)

    return run(x, w, g)

  actual, *gradients = value_and_gradients(_convolution.conv)
  expected, *expected_gradients = value_and_gradients(_convolution._xla_conv)
  np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)
  for ours, theirs in zip(gradients, expected_gradients, strict=True):
    np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-3)


def test_accelerators_run_the_ordinary_operations():
  def loss(x, w):
    return jnp.sum(_convolution.conv(x, w, 1, 0) ** 2)

  x, w = jnp.ones((2, 8, 8, 4)), jnp.ones((1, 1, 4, 4))
  traced = jax.jit(jax.grad(loss, argnums=(0, 1))).trace(x, w)
  cpu = traced.lower(lowering_platforms=("cpu",)).as_text()
  tpu = traced.lower(lowering_platforms=("tpu",)).as_text()
  assert "stablehlo.dot_general" in cpu
  assert "stablehlo.convolution" not in cpu
  assert tpu.count("stablehlo.convolution") == 3
  assert "stablehlo.dot_general" not in tpu
