"""Layers that the backbones share."""

from flax import linen as nn
import jax
from jax import lax
import jax.numpy as jnp
from jax.typing import DTypeLike

from pnjax.models import _convolution


class Conv(nn.Module):
  """Convolution with square kernels and equal zero padding on both sides.

  Attributes:
    features: Number of output channels.
    kernel_size: Height and width of the kernel.
    stride: Stride in both directions.
    padding: Number of zeros on each side, as Caffe and PyTorch count them; `"SAME"`
      would put them elsewhere at stride 2.
    use_bias: Whether to add a bias.
    dtype: Type of the computation; parameters are float32.
  """

  features: int
  kernel_size: int
  stride: int = 1
  padding: int = 0
  use_bias: bool = False
  dtype: DTypeLike = jnp.float32

  @nn.compact
  def __call__(
    self,
    x: jax.Array,
    scale: jax.Array | None = None,
    shift: jax.Array | None = None,
  ) -> jax.Array:
    """Return `scale * conv(x) + shift`, with one scale and shift per channel."""
    shape = (self.kernel_size, self.kernel_size, x.shape[-1], self.features)
    init = nn.initializers.variance_scaling(2.0, "fan_out", "truncated_normal")
    kernel = self.param("kernel", init, shape)
    if scale is not None:
      kernel = kernel * per_channel(scale)
    y = _convolution.conv(
      x.astype(self.dtype), kernel.astype(self.dtype), self.stride, self.padding
    )
    if self.use_bias:
      shift = self.param("bias", nn.initializers.zeros, (self.features,))
    if shift is not None:
      y = y + per_channel(shift.astype(self.dtype))
    return y


class BatchNorm(nn.Module):
  """Batch norm with fixed statistics, or with those of the batch.

  Attributes:
    features: Number of channels.
    epsilon: Constant that is added to the variance.
    momentum: Share of the running statistics that an update keeps.
    axis_name: Device axis over which batch statistics are averaged.
    dtype: Type of the result; statistics are float32.
  """

  features: int
  epsilon: float = 1e-5
  momentum: float = 0.9
  axis_name: str | None = None
  dtype: DTypeLike = jnp.float32

  def setup(self):
    """Declare the parameters and the running statistics."""
    shape = (self.features,)
    self.scale = self.param("scale", nn.initializers.ones, shape)
    self.bias = self.param("bias", nn.initializers.zeros, shape)
    self.mean = self.variable("batch_stats", "mean", jnp.zeros, shape)
    self.var = self.variable("batch_stats", "var", jnp.ones, shape)

  def affine(self) -> tuple[jax.Array, jax.Array]:
    """Return the scale and shift that the running statistics amount to."""
    scale = self.scale * lax.rsqrt(self.var.value + self.epsilon)
    return scale, self.bias - self.mean.value * scale

  def __call__(self, x: jax.Array) -> jax.Array:
    """Normalize by the statistics of the batch, and update the running ones."""
    x = x.astype(jnp.float32)
    mean = self._average(x)
    centered = x - per_channel(mean)
    var = self._average(jnp.square(centered))
    if not self.is_initializing():
      self._update(mean, var, x.size // self.features)
    scale = self.scale * lax.rsqrt(var + self.epsilon)
    y = centered * per_channel(scale) + per_channel(self.bias)
    return y.astype(self.dtype)

  def _average(self, x: jax.Array) -> jax.Array:
    mean = jnp.mean(x, axis=(0, 1, 2))
    synchronized = self.axis_name is not None and not self.is_initializing()
    return lax.pmean(mean, self.axis_name) if synchronized else mean

  def _update(self, mean: jax.Array, var: jax.Array, count: int) -> None:
    if self.axis_name is not None:
      count *= lax.axis_size(self.axis_name)
    # As in Caffe and PyTorch, the biased variance normalizes and the unbiased one is
    # stored.
    unbiased = var * (count / max(count - 1, 1))
    keep, take = self.momentum, 1 - self.momentum
    self.mean.value = keep * self.mean.value + take * mean
    self.var.value = keep * self.var.value + take * unbiased


def conv_norm(
  conv: Conv, norm: BatchNorm, x: jax.Array, batch_statistics: bool
) -> jax.Array:
  """Convolution and batch norm, with the statistics of the batch or the running ones.

  With fixed statistics, batch norm is an affine function, which is folded into the
  kernel: it needs no pass over the activations, forward or backward.
  """
  if batch_statistics:
    return norm(conv(x))
  return conv(x, *norm.affine())


def per_channel(v: jax.Array) -> jax.Array:
  """Return a vector `[C]` as `[1, 1, 1, C]`."""
  return v.reshape(1, 1, 1, -1)
