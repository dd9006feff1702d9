"""ResNet in its two variants.

References:
  He et al., Deep Residual Learning for Image Recognition, CVPR 2016.
"""

from collections.abc import Callable
import functools

from flax import linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike

from pnjax.models import _backbone
from pnjax.models._layers import BatchNorm
from pnjax.models._layers import Conv
from pnjax.models._layers import conv_norm

_VARIANTS = ("v1", "v1.5")
_EXPANSION = 4


class ResNet(_backbone.Backbone):
  """Residual network; returns the feature map of its last stage.

  Images are `[B, H, W, 3]`, preprocessed as the weights require; see
  `pnjax.pretrained`. Parameters are named as in torchvision: `conv1`, `bn1`,
  `layer1/block0/conv1`, ..., `fc`.

  Attributes:
    stage_sizes: Number of blocks in each stage. Every stage except the first halves
      the feature map.
    bottleneck: Whether blocks are three convolutions (1×1, 3×3, 1×1) that return four
      times as many channels as they have inside, or two 3×3 convolutions.
    width: Number of channels inside the blocks of the first stage. It doubles with
      each stage.
    variant: `"v1"` has the stride of a downsampling bottleneck in its first 1×1
      convolution (Caffe, the network of the paper), `"v1.5"` in the 3×3
      (torchvision). Blocks of two convolutions are the same in both.
    num_classes: Number of classes of `logits`, or None for a network without a
      classifier.
    epsilon: Constant that batch norm adds to the variance.
    batch_statistics: Whether batch norm uses the statistics of the batch when
      `train=True`, and updates the running ones in `batch_stats`. The running
      statistics are used otherwise.
    momentum: Share of the running statistics that an update keeps.
    axis_name: Device axis over which batch statistics are averaged; each device has
      its own if None.
    dtype: Type of the computation; parameters and statistics are float32.
  """

  stage_sizes: tuple[int, ...]
  bottleneck: bool = True
  width: int = 64
  variant: str = "v1"
  num_classes: int | None = None
  epsilon: float = 1e-5
  batch_statistics: bool = False
  momentum: float = 0.9
  axis_name: str | None = None
  dtype: DTypeLike = jnp.float32

  def setup(self):
    """Declare the stem, the stages and the classifier."""
    if self.variant not in _VARIANTS:
      raise ValueError(
        f"`variant` is {self.variant!r}, expected one of {', '.join(_VARIANTS)}."
      )
    conv = functools.partial(Conv, dtype=self.dtype)
    norm = functools.partial(
      BatchNorm,
      epsilon=self.epsilon,
      momentum=self.momentum,
      axis_name=self.axis_name,
      dtype=self.dtype,
    )
    block = functools.partial(
      functools.partial(Bottleneck, variant=self.variant)
      if self.bottleneck
      else BasicBlock,
      conv=conv,
      norm=norm,
    )
    self.conv1 = conv(self.width, 7, 2, 3)
    self.bn1 = norm(self.width)
    self.layers = [
      Stage(
        num_blocks=size,
        width=self.width * 2**i,
        stride=self._stride(i),
        block=block,
        name=f"layer{i + 1}",
      )
      for i, size in enumerate(self.stage_sizes)
    ]
    if self.num_classes is not None:
      self.fc = nn.Dense(self.num_classes, dtype=jnp.float32)

  def stage_functions(self, train: bool) -> dict[str, Callable[[jax.Array], jax.Array]]:
    """Return the functions of `stem`, `layer1`, ..., in this order."""
    batch_statistics = train and self.batch_statistics

    def stem(x):
      x = nn.relu(conv_norm(self.conv1, self.bn1, x, batch_statistics))
      return nn.max_pool(x, (3, 3), (2, 2), [(1, 1), (1, 1)])

    return {"stem": stem} | {
      layer.name: functools.partial(layer, batch_statistics=batch_statistics)
      for layer in self.layers
    }

  def stride_after(self, stage: str) -> int:
    """Return the stride at which the next stage reads the feature map of a stage."""
    names = ["stem", *(f"layer{i + 1}" for i in range(len(self.stage_sizes)))]
    # In a v1 bottleneck every convolution that reads the feature map, including the
    # shortcut, is 1×1 and strided.
    if not self.bottleneck or self.variant != "v1" or stage == names[-1]:
      return 1
    return self._stride(names.index(stage))

  def trainable_choices(self) -> dict[str, _backbone.TrainableLayers]:
    """Return the last stage, or only its last two convolutions."""
    last = len(self.stage_sizes)
    block = f"layer{last}.block{self.stage_sizes[-1] - 1}"
    numbers = (2, 3) if self.bottleneck else (1, 2)
    convs = tuple(f"{block}.{kind}{i}" for i in numbers for kind in ("conv", "bn"))
    return {
      "last_stage": _backbone.TrainableLayers((f"layer{last}",), f"layer{last - 1}"),
      "last_two_convs": _backbone.TrainableLayers(convs),
    }

  def _stride(self, stage: int) -> int:
    return 1 if stage == 0 else 2

  def classify(self, features: jax.Array) -> jax.Array:
    """Return the logits of the last feature map: its average and a dense layer."""
    return self.fc(jnp.mean(features.astype(jnp.float32), axis=(1, 2)))


class ResNet18(ResNet):
  """ResNet-18; returns a feature map `[B, H/32, W/32, 512]`."""

  stage_sizes: tuple[int, ...] = (2, 2, 2, 2)
  bottleneck: bool = False


class ResNet34(ResNet):
  """ResNet-34; returns a feature map `[B, H/32, W/32, 512]`."""

  stage_sizes: tuple[int, ...] = (3, 4, 6, 3)
  bottleneck: bool = False


class ResNet50(ResNet):
  """ResNet-50; returns a feature map `[B, H/32, W/32, 2048]`."""

  stage_sizes: tuple[int, ...] = (3, 4, 6, 3)


class ResNet101(ResNet):
  """ResNet-101; returns a feature map `[B, H/32, W/32, 2048]`."""

  stage_sizes: tuple[int, ...] = (3, 4, 23, 3)


class ResNet152(ResNet):
  """ResNet-152; returns a feature map `[B, H/32, W/32, 2048]`."""

  stage_sizes: tuple[int, ...] = (3, 8, 36, 3)


class TinyResNet(ResNet):
  """Two stages of one block, for tests and the demo; returns `[B, H/8, W/8, 64]`."""

  stage_sizes: tuple[int, ...] = (1, 1)
  width: int = 8


class Stage(nn.Module):
  """Blocks of one resolution; the first one may halve it."""

  num_blocks: int
  width: int
  stride: int
  block: Callable[..., nn.Module]

  @nn.compact
  def __call__(self, x: jax.Array, batch_statistics: bool) -> jax.Array:
    """Apply the blocks."""
    for i in range(self.num_blocks):
      stride = self.stride if i == 0 else 1
      x = self.block(self.width, stride, name=f"block{i}")(x, batch_statistics)
    return x


class BasicBlock(nn.Module):
  """Two 3×3 convolutions and a shortcut."""

  width: int
  stride: int
  conv: Callable[..., Conv]
  norm: Callable[..., BatchNorm]

  @nn.compact
  def __call__(self, x: jax.Array, batch_statistics: bool) -> jax.Array:
    """Return the rectified sum of both branches."""
    layer = _layers_of(self, batch_statistics)
    y = nn.relu(layer(1, x, self.width, 3, self.stride, padding=1))
    y = layer(2, y, self.width, 3, padding=1)
    return _add_shortcut(layer, x, y, self.stride)


class Bottleneck(nn.Module):
  """Three convolutions (1×1, 3×3, 1×1) and a shortcut."""

  width: int
  stride: int
  variant: str
  conv: Callable[..., Conv]
  norm: Callable[..., BatchNorm]

  @nn.compact
  def __call__(self, x: jax.Array, batch_statistics: bool) -> jax.Array:
    """Return the rectified sum of both branches."""
    layer = _layers_of(self, batch_statistics)
    stride1, stride2 = (self.stride, 1) if self.variant == "v1" else (1, self.stride)
    y = nn.relu(layer(1, x, self.width, 1, stride1))
    y = nn.relu(layer(2, y, self.width, 3, stride2, padding=1))
    y = layer(3, y, self.width * _EXPANSION, 1)
    return _add_shortcut(layer, x, y, self.stride)


def _layers_of(
  block: BasicBlock | Bottleneck, batch_statistics: bool
) -> Callable[..., jax.Array]:
  """Return the function that creates and applies a convolution and its batch norm."""

  def layer(suffix, x, features, kernel_size, stride=1, padding=0):
    conv = block.conv(features, kernel_size, stride, padding, name=f"conv{suffix}")
    norm = block.norm(features, name=f"bn{suffix}")
    return conv_norm(conv, norm, x, batch_statistics)

  return layer


def _add_shortcut(
  layer: Callable[..., jax.Array], x: jax.Array, y: jax.Array, stride: int
) -> jax.Array:
  """Return the rectified sum of the input and the output of a block."""
  if stride != 1 or x.shape[-1] != y.shape[-1]:
    x = layer("_downsample", x, y.shape[-1], 1, stride)
  return nn.relu(x.astype(y.dtype) + y)
