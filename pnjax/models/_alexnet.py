"""AlexNet as in torchvision.

References:
  Krizhevsky, One Weird Trick for Parallelizing Convolutional Neural Networks, 2014.
"""

from collections.abc import Callable
import functools

from flax import linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from pnjax.models import _backbone
from pnjax.models._layers import Conv


class AlexNet(_backbone.Backbone):
  """AlexNet; returns the feature map of its last convolution after the last pooling.

  For images of 224 × 224, that is `[B, 6, 6, 256]`. Images are `[B, H, W, 3]`,
  preprocessed as the weights require; see `pnjax.pretrained`. Parameters are named
  `conv1` to `conv5` and `fc6` to `fc8`.

  Attributes:
    num_classes: Number of classes of `logits`, or None for a network without the
      fully connected layers.
    dtype: Type of the computation; parameters are float32.
  """

  num_classes: int | None = None
  dtype: DTypeLike = jnp.float32

  def setup(self):
    """Declare the convolutions and the fully connected layers."""
    self.conv1 = Conv(64, 11, 4, 2, use_bias=True, dtype=self.dtype)
    self.conv2 = Conv(192, 5, 1, 2, use_bias=True, dtype=self.dtype)
    self.conv3 = Conv(384, 3, 1, 1, use_bias=True, dtype=self.dtype)
    self.conv4 = Conv(256, 3, 1, 1, use_bias=True, dtype=self.dtype)
    self.conv5 = Conv(256, 3, 1, 1, use_bias=True, dtype=self.dtype)
    if self.num_classes is not None:
      self.fc6 = nn.Dense(4096, dtype=self.dtype)
      self.fc7 = nn.Dense(4096, dtype=self.dtype)
      self.fc8 = nn.Dense(self.num_classes, dtype=jnp.float32)

  def stage_functions(self, train: bool) -> dict[str, Callable[[jax.Array], jax.Array]]:
    """Return the functions of `conv1` to `conv5`, rectified and pooled."""
    del train  # AlexNet has no batch norm.

    def stage(conv, pool, x):
      x = nn.relu(conv(x))
      return nn.max_pool(x, (3, 3), (2, 2)) if pool else x

    return {
      f"conv{i}": functools.partial(stage, getattr(self, f"conv{i}"), i in (1, 2, 5))
      for i in range(1, 6)
    }

  def trainable_choices(self) -> dict[str, _backbone.TrainableLayers]:
    """Return the choice of the paper: the last two convolutions."""
    return {
      "last_two_convs": _backbone.TrainableLayers(("conv4", "conv5"), after="conv3")
    }

  def classify(self, features: jax.Array) -> jax.Array:
    """Return the logits of the last feature map, without dropout."""
    if features.shape[1:3] != (6, 6):
      raise ValueError(
        f"The feature map has shape {features.shape}, expected [B, 6, 6, 256]: the "
        "fully connected layers need images of 224 × 224."
      )
    x = features.reshape(features.shape[0], -1)
    return self.fc8(nn.relu(self.fc7(nn.relu(self.fc6(x)))))
