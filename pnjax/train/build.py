"""The classifier of a config, with its first weights."""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
import functools

from flax import linen as nn
from flax import traverse_util
import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from pnjax import models
from pnjax import pretrained
from pnjax.train import devices
from pnjax.train import feature_cache
from pnjax.train import heads

_DTYPES = {"float32": jnp.float32, "bfloat16": jnp.bfloat16}
_BACKBONES = {
  "resnet50": models.ResNet50,
  "alexnet": models.AlexNet,
  "tiny_resnet": models.TinyResNet,
}


@dataclasses.dataclass(frozen=True, eq=False)
class Backbone:
  """A network and how it wants its pictures.

  Attributes:
    model: returns maps.
    variables: its weights, or None where they are to start at random.
    preprocess: from uint8 pictures `[B, H, W, 3]` to what the model takes.
    recipe: name of the recipe of the weights, if there are any.
  """

  model: nn.Module
  variables: Mapping | None
  preprocess: Callable[[jax.Array], jax.Array]
  recipe: str | None = None

  @functools.cached_property
  def fingerprint(self) -> str | None:
    """Changes with the weights; None if they start at random."""
    return None if self.variables is None else feature_cache.digest(self.variables)


def backbone(config: ml_collections.ConfigDict) -> Backbone:
  """Returns the network of `config.backbone`, with its weights."""
  fresh = without_weights(config)
  if config.weights is None:
    return fresh
  loaded = pretrained.load(config.weights, config.recipe)
  if loaded.recipe.architecture != config.name:
    raise ValueError(
      f"backbone.weights {config.weights} are of {loaded.recipe.architecture}, but "
      f"backbone.name is {config.name}."
    )
  return _of_pretrained(config, loaded)


def of_recipe(config: ml_collections.ConfigDict, recipe: str) -> Backbone:
  """Returns the network of `config.backbone` without its weights, by their recipe."""
  known = pretrained.RECIPES[recipe]
  model = known.model(with_classifier=False)
  return _of_pretrained(config, pretrained.Pretrained(recipe, known, model, {}))


def _of_pretrained(config, loaded: pretrained.Pretrained) -> Backbone:
  return Backbone(
    model=loaded.model.clone(num_classes=None, **_options(config)),
    variables=loaded.variables,
    preprocess=loaded.preprocess,
    recipe=loaded.name,
  )


def without_weights(config: ml_collections.ConfigDict) -> Backbone:
  """Returns the network of `config.backbone`, to start at random."""
  if config.name not in _BACKBONES:
    raise ValueError(
      f"backbone.name is {config.name!r}, expected one of {', '.join(_BACKBONES)}."
    )
  return Backbone(_BACKBONES[config.name](**_options(config)), None, _center)


def _options(config: ml_collections.ConfigDict) -> dict[str, object]:
  if config.dtype not in _DTYPES:
    raise ValueError(
      f"backbone.dtype is {config.dtype!r}, expected one of {', '.join(_DTYPES)}."
    )
  options = {"dtype": _DTYPES[config.dtype]}
  if not config.batch_statistics:
    return options
  if config.name == "alexnet":
    raise ValueError(
      "backbone.batch_statistics is True, expected False for alexnet, which has no "
      "batch norm."
    )
  return options | {"batch_statistics": True, "axis_name": devices.AXIS}


def check_image_size(config: ml_collections.ConfigDict, model: nn.Module) -> None:
  """Raises ValueError if pictures are too small for a network to return a map."""
  size = config.dataset.image_size
  if size < 1:
    raise ValueError(f"dataset.image_size is {size}, expected 1 or more.")
  maps, _ = jax.eval_shape(
    lambda: model.init_with_output(jax.random.key(0), jnp.zeros((1, size, size, 3)))
  )
  if 0 in maps.shape:
    raise ValueError(
      f"dataset.image_size is {size}, which is too small for {config.backbone.name}: "
      "its map would have no positions."
    )


def _center(images: jax.Array) -> jax.Array:
  """Returns uint8 pictures as numbers from -1 to 1."""
  return images.astype(jnp.float32) / 127.5 - 1


def suggest(
  config: ml_collections.ConfigDict, backbone: Backbone, pictures: np.ndarray
) -> dict[str, float]:
  """Returns parameters of the head that the config leaves open.

  Args:
    config: of the run.
    backbone: with its weights, or random ones where it has none.
    pictures: uint8 `[B, S, S, 3]` or `[B, P, S, S, 3]`.
  """
  variables = backbone.variables
  if variables is None:
    shape = (1, *pictures.shape[-3:])
    variables = backbone.model.init(jax.random.key(config.seed), jnp.zeros(shape))

  @jax.jit
  def maps_of(pictures):
    return backbone.model.apply(variables, backbone.preprocess(pictures))

  maps = [maps_of(p.reshape(-1, *p.shape[-3:])) for p in pictures[:, None]]
  return heads.suggest(config.head, jnp.stack(maps))


def classifier(
  config: ml_collections.ConfigDict,
  backbone: Backbone,
  num_classes: int,
  suggested: Mapping[str, float],
) -> models.Classifier:
  """Returns the model of a config."""
  return models.Classifier(
    backbone=backbone.model,
    pooling=heads.pooling(config.head, suggested),
    num_classes=num_classes,
    normalize=config.head.normalize,
  )


def initialize(
  model: models.Classifier, backbone: Backbone, image_size: int, seed: int
) -> dict[str, Mapping]:
  """Returns the variables before training: pretrained where there are weights."""
  shape = (1, image_size, image_size, 3)
  # Compiled, the pass through the network that `init` makes is left out.
  variables = jax.jit(lambda key: model.init(key, jnp.zeros(shape)))(
    jax.random.key(seed)
  )
  if backbone.variables is None:
    return variables
  return {
    name: tree | {"backbone": _matching(tree["backbone"], backbone.variables[name])}
    if "backbone" in tree
    else tree
    for name, tree in variables.items()
  }


def _matching(expected: Mapping, loaded: Mapping) -> Mapping:
  """Returns those of the loaded weights that the model has; it must find all."""
  expected, loaded = (
    traverse_util.flatten_dict(tree, sep=".") for tree in (expected, loaded)
  )
  absent = [name for name in expected if name not in loaded]
  if absent:
    raise ValueError(f"the weights lack {', '.join(absent[:10])}.")
  return traverse_util.unflatten_dict({n: loaded[n] for n in expected}, sep=".")
