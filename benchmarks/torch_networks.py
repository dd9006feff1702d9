"""ResNet, AlexNet and VGG-16 in plain PyTorch, to compare with in benchmarks and tests.

Parameters have the names of torchvision.
"""

from collections.abc import Sequence

import torch
from torch import nn


class ResNet(nn.Module):
  """ResNet-50 or another one; `stages` returns feature maps, `forward` logits.

  Args:
    variant: `"v1"` or `"v1.5"`; see `pnjax.models.ResNet`.
    epsilon: Epsilon of batch norm.
    stage_sizes: Number of blocks in each of the four stages.
    bottleneck: Whether blocks are bottlenecks.
  """

  def __init__(
    self,
    variant: str = "v1.5",
    epsilon: float = 1e-5,
    stage_sizes: Sequence[int] = (3, 4, 6, 3),
    bottleneck: bool = True,
  ):
    super().__init__()
    self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
    self.bn1 = nn.BatchNorm2d(64, epsilon)
    self.maxpool = nn.MaxPool2d(3, 2, 1)
    channels = 64
    for i, size in enumerate(stage_sizes):
      width = 64 * 2**i
      blocks = []
      for j in range(size):
        stride = 2 if i > 0 and j == 0 else 1
        if bottleneck:
          blocks.append(Bottleneck(channels, width, stride, variant, epsilon))
          channels = 4 * width
        else:
          blocks.append(BasicBlock(channels, width, stride, epsilon))
          channels = width
      self.add_module(f"layer{i + 1}", nn.Sequential(*blocks))
    self.fc = nn.Linear(channels, 1000)

  def stages(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the feature maps of the stem and of each stage."""
    x = self.maxpool(self.bn1(self.conv1(x)).relu_())
    feature_maps = {"stem": x}
    for name in ("layer1", "layer2", "layer3", "layer4"):
      x = getattr(self, name)(x)
      feature_maps[name] = x
    return feature_maps

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    """Return the logits."""
    return self.fc(self.stages(x)["layer4"].mean((2, 3)))


class BasicBlock(nn.Module):
  """Two convolutions and a shortcut."""

  def __init__(self, channels: int, out: int, stride: int, epsilon: float):
    super().__init__()
    self.conv1 = nn.Conv2d(channels, out, 3, stride, 1, bias=False)
    self.bn1 = nn.BatchNorm2d(out, epsilon)
    self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
    self.bn2 = nn.BatchNorm2d(out, epsilon)
    self.downsample = _downsample(channels, out, stride, epsilon)

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    """Return the rectified sum of both branches."""
    y = self.bn1(self.conv1(x)).relu_()
    y = self.bn2(self.conv2(y))
    return (y + (x if self.downsample is None else self.downsample(x))).relu_()


class Bottleneck(nn.Module):
  """Three convolutions and a shortcut."""

  def __init__(
    self, channels: int, width: int, stride: int, variant: str, epsilon: float
  ):
    super().__init__()
    stride1, stride2 = (stride, 1) if variant == "v1" else (1, stride)
    out = 4 * width
    self.conv1 = nn.Conv2d(channels, width, 1, stride1, bias=False)
    self.bn1 = nn.BatchNorm2d(width, epsilon)
    self.conv2 = nn.Conv2d(width, width, 3, stride2, 1, bias=False)
    self.bn2 = nn.BatchNorm2d(width, epsilon)
    self.conv3 = nn.Conv2d(width, out, 1, bias=False)
    self.bn3 = nn.BatchNorm2d(out, epsilon)
    self.downsample = _downsample(channels, out, stride, epsilon)

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    """Return the rectified sum of both branches."""
    y = self.bn1(self.conv1(x)).relu_()
    y = self.bn2(self.conv2(y)).relu_()
    y = self.bn3(self.conv3(y))
    return (y + (x if self.downsample is None else self.downsample(x))).relu_()


def _downsample(
  channels: int, out: int, stride: int, epsilon: float
) -> nn.Module | None:
  """Return the convolution of a shortcut, or None if it is the identity."""
  if stride == 1 and channels == out:
    return None
  return nn.Sequential(
    nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out, epsilon)
  )


class AlexNet(nn.Module):
  """AlexNet without dropout; `stages` returns feature maps, `forward` logits."""

  def __init__(self):
    super().__init__()
    self.features = nn.Sequential(
      nn.Conv2d(3, 64, 11, 4, 2),
      nn.ReLU(),
      nn.MaxPool2d(3, 2),
      nn.Conv2d(64, 192, 5, 1, 2),
      nn.ReLU(),
      nn.MaxPool2d(3, 2),
      nn.Conv2d(192, 384, 3, 1, 1),
      nn.ReLU(),
      nn.Conv2d(384, 256, 3, 1, 1),
      nn.ReLU(),
      nn.Conv2d(256, 256, 3, 1, 1),
      nn.ReLU(),
      nn.MaxPool2d(3, 2),
    )
    self.classifier = nn.Sequential(
      nn.Identity(),
      nn.Linear(256 * 6 * 6, 4096),
      nn.ReLU(),
      nn.Identity(),
      nn.Linear(4096, 4096),
      nn.ReLU(),
      nn.Linear(4096, 1000),
    )

  def stages(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the feature maps of all convolutions, rectified and pooled."""
    ends = {2: "conv1", 5: "conv2", 7: "conv3", 9: "conv4", 12: "conv5"}
    feature_maps = {}
    for i, layer in enumerate(self.features):
      x = layer(x)
      if i in ends:
        feature_maps[ends[i]] = x
    return feature_maps

  def forward(self, x: torch.Tensor) -> torch.Tensor:
    """Return the logits."""
    return self.classifier(self.stages(x)["conv5"].flatten(1))


class VGG16(nn.Module):
  """VGG-16 up to relu5_3; `stages` returns feature maps."""

  def __init__(self):
    super().__init__()
    layers, channels = [], 3
    for count, width in ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512)):
      for _ in range(count):
        layers += [nn.Conv2d(channels, width, 3, 1, 1), nn.ReLU()]
        channels = width
      layers.append(nn.MaxPool2d(2, 2))
    self.features = nn.Sequential(*layers[:-1])

  def stages(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the feature maps of all convolutions, rectified and pooled."""
    feature_maps, i, j = {}, 1, 0
    for layer in self.features:
      x = layer(x)
      j += isinstance(layer, nn.Conv2d)
      feature_maps[f"conv{i}_{j}"] = x  # The last of them stays.
      if isinstance(layer, nn.MaxPool2d):
        i, j = i + 1, 0
    return feature_maps
