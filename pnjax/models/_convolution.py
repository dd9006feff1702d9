"""Convolution by XLA, or by matrix products where those are faster on a CPU.

This file has everything that is specific to the CPU. Other platforms run the ordinary
operations; the choice is made when a program is compiled, not when it is traced.
"""

import functools

import jax
from jax import lax
import jax.numpy as jnp


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def conv(x: jax.Array, w: jax.Array, stride: int, padding: int) -> jax.Array:
  """Convolve feature maps `[B, H, W, C]` with kernels `[k, k, C, D]`."""
  return lax.platform_dependent(
    x,
    w,
    cpu=functools.partial(_cpu_conv, stride=stride, padding=padding),
    default=functools.partial(_xla_conv, stride=stride, padding=padding),
  )


def _conv_fwd(x, w, stride, padding):
  return conv(x, w, stride, padding), (x, w)


def _conv_bwd(stride, padding, residuals, g):
  return lax.platform_dependent(
    *residuals,
    g,
    cpu=functools.partial(_cpu_gradients, stride=stride, padding=padding),
    default=functools.partial(_xla_gradients, stride=stride, padding=padding),
  )


conv.defvjp(_conv_fwd, _conv_bwd)


def _xla_conv(x, w, stride, padding):
  return lax.conv_general_dilated(
    x,
    w,
    (stride, stride),
    [(padding, padding)] * 2,
    dimension_numbers=("NHWC", "HWIO", "NHWC"),
  )


def _xla_gradients(x, w, g, stride, padding):
  return jax.vjp(lambda x, w: _xla_conv(x, w, stride, padding), x, w)[1](g)


def _cpu_conv(x, w, stride, padding):
  if w.shape[:2] != (1, 1):
    return _xla_conv(x, w, stride, padding)
  return x[:, ::stride, ::stride] @ w[0, 0]


def _cpu_gradients(x, w, g, stride, padding):
  conv = functools.partial(_cpu_conv, stride=stride, padding=padding)
  x_bar, w_bar = jax.vjp(conv, x, w)[1](g)
  size, _, channels, features = w.shape
  if size == 1:
    pixels = x[:, ::stride, ::stride].reshape(-1, channels)
    w_bar = (pixels.T @ g.reshape(-1, features))[None, None]
  elif channels >= 8:  # With fewer, the products would be too narrow.
    w_bar = _products(x, w, g, stride, padding)
  return x_bar, w_bar


def _products(x, w, g, stride, padding):
  """Return the gradient of the weights, one product per entry of the kernel."""
  size, _, channels, features = w.shape
  x = jnp.pad(x, [(0, 0), (padding, padding), (padding, padding), (0, 0)])
  # Transpose once, rather than in each product.
  columns = lax.optimization_barrier(g.reshape(-1, features).T)
  limits = [stride * (out - 1) + 1 for out in g.shape[1:3]]

  def product(i, j):
    window = x[:, i : i + limits[0] : stride, j : j + limits[1] : stride]
    return columns @ window.reshape(-1, channels)

  products = jnp.stack([product(i, j) for i in range(size) for j in range(size)])
  products = lax.optimization_barrier(products)
  return products.swapaxes(1, 2).reshape(w.shape)
