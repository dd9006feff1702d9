"""Recipes: how a network was built and how it wants its pictures.

A file of tensors says neither, and nothing fails when they are mixed up; the
network only becomes a worse one.
"""

from collections.abc import Mapping
import dataclasses

from flax import linen as nn

from pnjax.models import AlexNet
from pnjax.models import ResNet50


@dataclasses.dataclass(frozen=True)
class Recipe:
  """What has to be known about weights besides their values.

  Attributes:
    architecture: `"resnet50"` or `"alexnet"`.
    num_classes: classes of the classifier.
    channels: order in which the network wants them, `"RGB"` or `"BGR"`.
    divisor: pixels from 0 to 255 are divided by it first.
    mean: subtracted next, in the order of `channels`.
    std: divided by last, in the order of `channels`.
    variant: of ResNet-50, see `pnjax.models.ResNet`.
    epsilon: of batch norm.
  """

  architecture: str
  num_classes: int
  channels: str
  divisor: float
  mean: tuple[float, float, float]
  std: tuple[float, float, float]
  variant: str | None = None
  epsilon: float | None = None

  def model(self, with_classifier: bool) -> nn.Module:
    """Returns the network of this recipe."""
    num_classes = self.num_classes if with_classifier else None
    if self.architecture == "alexnet":
      return AlexNet(num_classes=num_classes)
    return ResNet50(variant=self.variant, epsilon=self.epsilon, num_classes=num_classes)


_TORCHVISION_INPUT = {
  "channels": "RGB",
  "divisor": 255.0,
  "mean": (0.485, 0.456, 0.406),
  "std": (0.229, 0.224, 0.225),
}

RECIPES: dict[str, Recipe] = {
  # The original Caffe network, with the epsilon that Keras gave it.
  "resnet50_v1_caffe": Recipe(
    architecture="resnet50",
    num_classes=1000,
    channels="BGR",
    divisor=1.0,
    mean=(103.939, 116.779, 123.68),
    std=(1.0, 1.0, 1.0),
    variant="v1",
    epsilon=1e-3,
  ),
  "resnet50_torchvision": Recipe(
    architecture="resnet50",
    num_classes=1000,
    variant="v1.5",
    epsilon=1e-5,
    **_TORCHVISION_INPUT,
  ),
  "resnet50_places365": Recipe(
    architecture="resnet50",
    num_classes=365,
    variant="v1.5",
    epsilon=1e-5,
    **_TORCHVISION_INPUT,
  ),
  "alexnet_torchvision": Recipe(
    architecture="alexnet", num_classes=1000, **_TORCHVISION_INPUT
  ),
}

# Files that have no `recipe` in their metadata but describe themselves in words.
_DESCRIPTIONS = {
  "resnet50_v1_caffe": {
    "architecture": (
      "resnet50 v1: stride in the first 1x1 convolution of a downsampling block"
    ),
    "input": "BGR in [0,255], minus (103.939,116.779,123.68)",
    "batch_norm_eps": "1e-3",
  },
  "alexnet_torchvision": {
    "architecture": "alexnet (torchvision layout), convolutions only",
    "input": "RGB in [0,1], minus (0.485,0.456,0.406), over (0.229,0.224,0.225)",
  },
}


def stated_recipe(metadata: Mapping[str, str]) -> str | None:
  """Returns the name of the recipe that a file states about itself, if any."""
  if "recipe" in metadata:
    return metadata["recipe"]
  for name, description in _DESCRIPTIONS.items():
    if description.items() <= metadata.items():
      return name
  return None


def choose_recipe(
  path: str, requested: str | Recipe | None, stated: str | None, override: bool
) -> tuple[str, Recipe]:
  """Returns name and recipe from what the caller and the file say.

  Args:
    path: the file, for messages.
    requested: recipe of the caller, or its name.
    stated: name of the recipe that the file states.
    override: whether the caller's may contradict the file's.
  """
  choices = ", ".join(RECIPES)
  if requested is None and stated is None:
    raise ValueError(
      f"{path} does not say how its network was built and fed; "
      f"pass `recipe`, one of {choices}."
    )
  if isinstance(requested, Recipe):
    named = [name for name, recipe in RECIPES.items() if recipe == requested]
    name, recipe = (named or ["custom"])[0], requested
  else:
    name = requested or stated
    if name not in RECIPES:
      raise ValueError(f"{path}: recipe is {name!r}, expected one of {choices}.")
    recipe = RECIPES[name]
  if stated is not None and name != stated and not override:
    raise ValueError(
      f"{path} states the recipe {stated!r}, but `recipe` is {name!r}; leave it "
      "out, or pass `override_recipe=True` if the file is wrong about itself."
    )
  return name, recipe
