"""Convolution and max-pooling: XLA's own, and what is faster on a CPU.

All that is special to the CPU is in this file. Other platforms run the ordinary
operations, and are chosen when a program is compiled, not when it is traced.
"""

from collections.abc import Iterator
import functools

from flax import linen as nn
import jax
from jax import lax
import jax.numpy as jnp

# Bytes of a map up to which its nine shifted copies are made at once. Larger maps
# measured faster a few pictures at a time, presumably for the cache.
_CACHED = 3 * 2**20


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def conv(x: jax.Array, w: jax.Array, stride: int, padding: int) -> jax.Array:
  """Convolves maps `[B, H, W, C]` with kernels `[k, k, C, D]`."""
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


def max_pool(x: jax.Array, padding: int = 0) -> jax.Array:
  """Maximum over windows of 3 × 3 at stride 2."""
  return lax.platform_dependent(
    x,
    cpu=functools.partial(_cpu_max_pool, padding=padding),
    default=functools.partial(_xla_max_pool, padding=padding),
  )


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


def _xla_max_pool(x, padding):
  return nn.max_pool(x, (3, 3), (2, 2), [(padding, padding)] * 2)


def _cpu_conv(x, w, stride, padding):
  if w.shape[:2] != (1, 1):
    return _xla_conv(x, w, stride, padding)
  return x[:, ::stride, ::stride] @ w[0, 0]


def _cpu_gradients(x, w, g, stride, padding):
  (x_bar,) = jax.vjp(lambda x: _cpu_conv(x, w, stride, padding), x)[1](g)
  return x_bar, _cpu_weight_gradient(x, w, g, stride, padding)


def _cpu_weight_gradient(x, w, g, stride, padding):
  size, _, channels, _ = w.shape
  if size == 1:
    pixels = x[:, ::stride, ::stride].reshape(-1, channels)
    return (pixels.T @ g.reshape(len(pixels), -1))[None, None]
  if channels < 8:
    # One product for all shifts: single ones would be too narrow to be fast.
    return _sum_over_pictures(_joined_products, 1, x, w, g, stride, padding)
  pictures = max(1, _CACHED * len(g) // g.nbytes)
  return _sum_over_pictures(_single_products, pictures, x, w, g, stride, padding)


def _sum_over_pictures(gradient, pictures, x, w, g, stride, padding):
  """Sums weight gradients over so many pictures at a time."""
  if len(x) <= pictures or len(x) % pictures:
    return gradient(x, w, g, stride, padding)

  def step(total, chunk):
    return total + gradient(chunk[0], w, chunk[1], stride, padding), None

  chunks = [a.reshape(-1, pictures, *a.shape[1:]) for a in (x, g)]
  return lax.scan(step, jnp.zeros_like(w), chunks)[0]


def _joined_products(x, w, g, stride, padding):
  size, _, channels, features = w.shape
  x = lax.optimization_barrier(_pad(x, padding).transpose(3, 0, 1, 2))
  shifts = _shifts(x, 2, size, stride, g.shape[1:3])
  rows = jnp.concatenate([shift.reshape(channels, -1) for shift in shifts])
  return (lax.optimization_barrier(rows) @ g.reshape(-1, features)).reshape(w.shape)


def _single_products(x, w, g, stride, padding):
  size, _, channels, features = w.shape
  columns = lax.optimization_barrier(g.reshape(-1, features).T)
  shifts = _shifts(_pad(x, padding), 1, size, stride, g.shape[1:3])
  products = [columns @ shift.reshape(-1, channels) for shift in shifts]
  products = lax.optimization_barrier(jnp.stack(products))
  return products.swapaxes(1, 2).reshape(w.shape)


def _cpu_max_pool(x, padding):
  out = [(side + 2 * padding - 3) // 2 + 1 for side in x.shape[1:3]]
  # Meant to keep XLA from fusing ReLU into the backward pass, which measured five
  # times as slow as the backward pass of the pooling alone.
  x = _pad(lax.optimization_barrier(x), padding, -jnp.inf)
  shifts = _shifts(x, 1, 3, 2, out)
  return functools.reduce(jnp.maximum, shifts)


def _pad(x, padding, value=0):
  widths = [(0, 0), (padding, padding), (padding, padding), (0, 0)]
  return jnp.pad(x, widths, constant_values=value)


def _shifts(x, axis, size, stride, out) -> Iterator[jax.Array]:
  """Yields what each entry of a kernel meets: height at `axis`, then width."""
  for i in range(size):
    for j in range(size):
      shift = x
      for k, start in enumerate((i, j)):
        limit = start + stride * (out[k] - 1) + 1
        shift = lax.slice_in_dim(shift, start, limit, stride, axis + k)
      yield shift
