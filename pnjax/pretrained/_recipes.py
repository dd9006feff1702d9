"""Recipes: how a network was built, and the input it expects.

A file of tensors tells neither. Nothing fails when they are mixed up; the network only
becomes less accurate.
"""

from collections.abc import Mapping
import dataclasses
from typing import Any

from pnjax import models
from pnjax.pretrained import _damage
from pnjax.pretrained._preprocessing import CENTERED
from pnjax.pretrained._preprocessing import Preprocessing


@dataclasses.dataclass(frozen=True)
class Recipe:
  """Everything about a network that its weights do not tell.

  Attributes:
    architecture: Name of the network in `pnjax.models.BACKBONES`.
    num_classes: Number of classes; None for a network without a classifier, which a
      file may have nevertheless.
    preprocessing: Preprocessing that the network was trained with.
    variant: Variant of a ResNet; that of the class if None.
    epsilon: Epsilon of batch or layer norm; that of the class if None.
    num_registers: Number of registers of a ViT; that of the class if None.
  """

  architecture: str
  num_classes: int | None
  preprocessing: Preprocessing
  variant: str | None = None
  epsilon: float | None = None
  num_registers: int | None = None

  def model(self, with_classifier: bool) -> models.Backbone:
    """Return the network of this recipe."""
    if self.architecture not in models.BACKBONES:
      raise ValueError(
        f"The recipe has architecture {self.architecture!r}, expected one of "
        f"{', '.join(models.BACKBONES)}."
      )
    options: dict[str, Any] = {
      "num_classes": self.num_classes if with_classifier else None,
      "variant": self.variant,
      "epsilon": self.epsilon,
      "num_registers": self.num_registers,
    }
    return models.BACKBONES[self.architecture](
      **{name: value for name, value in options.items() if value is not None}
    )


# Name of a recipe that is none of `RECIPES`.
CUSTOM = "custom"

_CAFFE = Preprocessing(
  channels="BGR",
  divisor=1.0,
  mean=(103.939, 116.779, 123.68),
  std=(1.0, 1.0, 1.0),
)
# Of PyTorch's networks, from torchvision to DINOv2.
_TORCHVISION = Preprocessing(
  channels="RGB",
  divisor=255.0,
  mean=(0.485, 0.456, 0.406),
  std=(0.229, 0.224, 0.225),
)
# From -1 to 1.
_HALVES = Preprocessing("RGB", 255.0, mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5))

RECIPES: dict[str, Recipe] = {
  # The original Caffe network, with the epsilon that Keras gave it.
  "resnet50_v1_caffe": Recipe("resnet50", 1000, _CAFFE, variant="v1", epsilon=1e-3),
  "resnet50_torchvision": Recipe(
    "resnet50", 1000, _TORCHVISION, variant="v1.5", epsilon=1e-5
  ),
  **{
    f"resnet{depth}_torchvision": Recipe(
      f"resnet{depth}", 1000, _TORCHVISION, variant="v1.5", epsilon=1e-5
    )
    for depth in (18, 34, 101, 152)
  },
  "resnet50_places365": Recipe(
    "resnet50", 365, _TORCHVISION, variant="v1.5", epsilon=1e-5
  ),
  "alexnet_torchvision": Recipe("alexnet", 1000, _TORCHVISION),
  "vgg16_torchvision": Recipe("vgg16", None, _TORCHVISION),
  # timm's `vit_small_patch16_224` and `vit_base_patch16_224`, `augreg_in21k_ft_in1k`.
  "vit_s16_augreg": Recipe("vit_s16", 1000, _HALVES),
  "vit_b16_augreg": Recipe("vit_b16", 1000, _HALVES),
  # `google/vit-base-patch16-224` at Hugging Face.
  "vit_b16_google": Recipe("vit_b16", 1000, _HALVES, epsilon=1e-12),
  "vit_s14_dinov2": Recipe("vit_s14", None, _TORCHVISION),
  "vit_b14_dinov2": Recipe("vit_b14", None, _TORCHVISION),
  "vit_s14_dinov2_registers": Recipe("vit_s14", None, _TORCHVISION, num_registers=4),
  "vit_b14_dinov2_registers": Recipe("vit_b14", None, _TORCHVISION, num_registers=4),
}

# Metadata of files that have no `recipe` but describe themselves in words.
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


def recipe_without_weights(architecture: str) -> Recipe:
  """Return the recipe of a backbone whose weights started at random."""
  return Recipe(architecture, None, CENTERED)


def stated_recipe(metadata: Mapping[str, str]) -> str | None:
  """Return the name of the recipe that the metadata of a file state, if any."""
  if "recipe" in metadata:
    return metadata["recipe"]
  for name, description in _DESCRIPTIONS.items():
    if description.items() <= metadata.items():
      return name
  return None


def choose_recipe(
  path: str, requested: str | Recipe | None, stated: str | None, override: bool
) -> tuple[str, Recipe]:
  """Return the recipe to use, and its name.

  Args:
    path: File of the weights, for error messages.
    requested: Recipe that the caller passed, or its name.
    stated: Name of the recipe that the file states.
    override: Whether the caller's recipe may contradict the file's.
  """
  choices = ", ".join(RECIPES)
  name: str | None
  if isinstance(requested, Recipe):
    names = [name for name, recipe in RECIPES.items() if recipe == requested]
    name, recipe = names[0] if names else CUSTOM, requested
  else:
    name = requested or stated
    if name is None:
      raise ValueError(
        f"{path} does not state its recipe; pass `recipe`, one of {choices}."
      )
    if name not in RECIPES:
      unknown = _damage.printable(repr(name))
      raise ValueError(f"{path}: recipe is {unknown}, expected one of {choices}.")
    recipe = RECIPES[name]
  if stated is not None and name != stated and not override:
    raise ValueError(
      f"`recipe` is {name!r}, expected {stated!r}, which {path} states; leave it out, "
      "or pass `override_recipe=True` if the file is wrong."
    )
  return name, recipe
