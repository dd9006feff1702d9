"""Backbones of a config, with the weights that they start from."""

from __future__ import annotations

from collections.abc import Mapping
import dataclasses
import functools
import pathlib
from typing import TYPE_CHECKING
from typing import Any

from flax import traverse_util
import jax
import jax.numpy as jnp
import ml_collections

from pnjax import models
from pnjax import runtime
from pnjax.pretrained import _downloads
from pnjax.pretrained import _files
from pnjax.pretrained import _load
from pnjax.pretrained import _preprocessing
from pnjax.pretrained import _recipes

if TYPE_CHECKING:
  from jaxtyping import Array
  from jaxtyping import Float
  from jaxtyping import UInt8

_DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}


@dataclasses.dataclass(frozen=True, eq=False)
class BackboneSpec:
  """A backbone, the weights that it starts from, and the format of its input.

  Attributes:
    model: The backbone.
    variables: Its weights, or None if they start at random.
    preprocessing: Function from uint8 images to the input of the model.
    recipe: Name of the recipe of the weights, if there are any.
  """

  model: models.Backbone
  variables: Mapping[str, Any] | None
  preprocessing: _preprocessing.Preprocessing
  recipe: str | None = None

  def preprocess(
    self, images: UInt8[Array, "*batch H W 3"]
  ) -> Float[Array, "*batch H W 3"]:
    """Return images as the model expects them, whatever their leading axes."""
    flat = self.preprocessing(images.reshape(-1, *images.shape[-3:]))
    return flat.reshape(images.shape)

  @functools.cached_property
  def fingerprint(self) -> str | None:
    """Digest of the weights; None if they start at random."""
    return None if self.variables is None else _files.digest(self.variables)


def backbone_from_config(config: ml_collections.ConfigDict) -> BackboneSpec:
  """Return the backbone of a config with its weights.

  Args:
    config: The group `backbone` of a run config.
  """
  untrained = untrained_backbone(config)  # Checks the fields.
  if config.weights is None:
    return untrained
  loaded = _load.load(weights_path(config.weights), config.recipe)
  if loaded.recipe.architecture != config.name:
    raise ValueError(
      f"backbone.weights {config.weights} are weights of "
      f"{loaded.recipe.architecture}, but backbone.name is {config.name}, expected "
      f"weights of one of {_recipe_names(config.name)}."
    )
  return BackboneSpec(
    model=loaded.recipe.model(with_classifier=False).clone(**_options(config)),
    variables=loaded.variables,
    preprocessing=loaded.recipe.preprocessing,
    recipe=loaded.name if loaded.name in _recipes.RECIPES else None,
  )


def untrained_backbone(
  config: ml_collections.ConfigDict, recipe: str | None = None
) -> BackboneSpec:
  """Return the backbone of a config without weights.

  Args:
    config: The group `backbone` of a run config.
    recipe: Name of the recipe of the weights that it is going to get, if any.
  """
  if config.name not in models.BACKBONES:
    raise ValueError(
      f"backbone.name is {config.name!r}, expected one of "
      f"{', '.join(models.BACKBONES)}."
    )
  if recipe is None:
    model = models.BACKBONES[config.name](**_options(config))
    return BackboneSpec(model, None, _preprocessing.CENTERED)
  known = _recipes.RECIPES[recipe]
  model = known.model(with_classifier=False).clone(**_options(config))
  return BackboneSpec(model, None, known.preprocessing, recipe)


def weights_path(weights: str) -> pathlib.Path:
  """Return the file of pretrained weights, and download known ones first.

  Args:
    weights: Path of a file, folder of a finished run or of an exported model, or one
      of `SOURCES`.
  """
  if weights in _downloads.SOURCES:
    return _downloads.fetch(weights)
  if weights in models.BACKBONES and not pathlib.Path(weights).exists():
    raise ValueError(
      f"backbone.weights is {weights!r}, for which no file is known, expected one of "
      f"{', '.join(_downloads.SOURCES)} or the path of a file; set backbone.recipe as "
      f"well, one of {_recipe_names(weights)}."
    )
  return _files.file_of_weights(weights)


def _recipe_names(architecture: str) -> str:
  """Return the names of the recipes of a network, for error messages."""
  recipes = _recipes.RECIPES.items()
  names = [name for name, recipe in recipes if recipe.architecture == architecture]
  return ", ".join(names) or "no recipe"


def _options(config: ml_collections.ConfigDict) -> dict[str, Any]:
  """Return the fields of the model that a config sets."""
  if config.dtype not in _DTYPES:
    raise ValueError(
      f"backbone.dtype is {config.dtype!r}, expected one of {', '.join(_DTYPES)}."
    )
  options = {"dtype": _DTYPES[config.dtype], "remat": config.remat}
  if not config.batch_statistics:
    return options
  fields = {field.name for field in dataclasses.fields(models.BACKBONES[config.name])}
  if "batch_statistics" not in fields:
    raise ValueError(
      f"backbone.batch_statistics is True, expected False for {config.name}, which has "
      "no batch norm."
    )
  return options | {"batch_statistics": True, "axis_name": runtime.BATCH_AXIS}


def initial_variables(
  model: models.ImageClassifier, backbone: BackboneSpec, image_size: int, seed: int
) -> dict[str, Any]:
  """Return the variables before training, pretrained where there are weights.

  Args:
    model: The network.
    backbone: Its backbone and the weights to start from.
    image_size: Height and width of the images.
    seed: Seed of the weights that start at random.
  """
  shape = (1, image_size, image_size, 3)
  # Compilation drops the pass through the network that `init` makes.
  variables = jax.jit(lambda key: model.init(key, jnp.zeros(shape)))(
    jax.random.key(seed)
  )
  if backbone.variables is None:
    return variables
  return {
    name: tree | {"backbone": _select(tree["backbone"], backbone.variables[name])}
    if "backbone" in tree
    else tree
    for name, tree in variables.items()
  }


def _select(expected: Mapping, loaded: Mapping) -> Mapping:
  """Return the loaded weights that the model has; none may be missing."""
  expected, loaded = (
    traverse_util.flatten_dict(tree, sep=".") for tree in (expected, loaded)
  )
  missing = [name for name in expected if name not in loaded]
  if missing:
    raise ValueError(f"the weights lack {', '.join(missing[:10])}.")
  return traverse_util.unflatten_dict({n: loaded[n] for n in expected}, sep=".")
