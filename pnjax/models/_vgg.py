"""VGG-16 as in torchvision, without its fully connected layers.

References:
  Simonyan and Zisserman, Very Deep Convolutional Networks for Large-Scale Image
  Recognition, ICLR 2015.
  Lin et al., Bilinear CNN Models for Fine-Grained Visual Recognition, ICCV 2015.
"""

from collections.abc import Callable
import functools

from flax import linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from pnjax.models import _backbone
from pnjax.models._layers import Conv

# Channels of the convolutions of each resolution.
_CHANNELS = ((64, 64), (128, 128), (256,) * 3, (512,) * 3, (512,) * 3)


class VGG16(_backbone.Backbone):
  """VGG-16; returns the rectified feature map of its last convolution, relu5_3.

  As in bilinear CNNs, the max-pooling after it is left out: for images of 448 × 448,
  the feature map is `[B, 28, 28, 512]`, with more positions than channels. Images are
  `[B, H, W, 3]`, preprocessed as the weights require; see `pnjax.pretrained`.
  Parameters are named `conv1_1` to `conv5_3`.

  Attributes:
    dtype: Type of the computation; parameters are float32.
  """

  dtype: DTypeLike = jnp.float32

  def setup(self):
    """Declare the convolutions."""
    for i, channels in enumerate(_CHANNELS, 1):
      for j, width in enumerate(channels, 1):
        conv = Conv(width, 3, 1, 1, use_bias=True, dtype=self.dtype)
        setattr(self, f"conv{i}_{j}", conv)

  def stage_functions(self, train: bool) -> dict[str, Callable[[jax.Array], jax.Array]]:
    """Return the functions of `conv1_1` to `conv5_3`, rectified.

    The last convolutions of the first four resolutions are followed by max-pooling.
    """
    del train  # VGG-16 has no batch norm.

    def stage(conv, pool, x):
      x = nn.relu(conv(x))
      return nn.max_pool(x, (2, 2), (2, 2)) if pool else x

    return {
      f"conv{i}_{j}": functools.partial(
        stage, getattr(self, f"conv{i}_{j}"), j == len(channels) and i < len(_CHANNELS)
      )
      for i, channels in enumerate(_CHANNELS, 1)
      for j in range(1, len(channels) + 1)
    }

  def trainable_choices(self) -> dict[str, _backbone.TrainableLayers]:
    """Return the three convolutions of the last resolution, or the last two."""
    last = ("conv5_1", "conv5_2", "conv5_3")
    return {
      "last_stage": _backbone.TrainableLayers(last, after="conv4_3"),
      "last_two_convs": _backbone.TrainableLayers(last[1:], after="conv5_1"),
    }
