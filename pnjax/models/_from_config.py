"""Pooling layers and whole networks from a config."""

from collections.abc import Callable
from collections.abc import Mapping

from flax import linen as nn
import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from pnjax import ops
from pnjax.models._image_classifier import ImageClassifier
from pnjax.models._pooling import PARAMETER_FIELDS
from pnjax.models._pooling import FirstOrderPooling
from pnjax.models._second_order import SecondOrderPooling

# Number of images whose features suggest parameters, at most.
_MAX_SUGGESTING_IMAGES = 32

_FIRST_ORDER_FIELDS = ("power_norm", *PARAMETER_FIELDS, "lam", "rectify", "learnable")
_SECOND_ORDER_FIELDS = (
  *_FIRST_ORDER_FIELDS,
  "spectral",
  "beta",
  "num_pivots",
  "alpha",
  "sigma",
  "trace_power",
  "kappa",
  "reduction",
  "dropout",
)


def image_classifier_from_config(
  config: ml_collections.ConfigDict,
  backbone: nn.Module,
  num_classes: int,
  suggested: Mapping[str, float],
) -> ImageClassifier:
  """Return the network of a config.

  Args:
    config: Run config.
    backbone: Backbone of the network.
    num_classes: Number of classes.
    suggested: Values of the fields that `missing_parameters` names.
  """
  return ImageClassifier(
    backbone=backbone,
    pooling=pooling_from_config(config, suggested),
    num_classes=num_classes,
    dropout=config.classifier.dropout,
  )


def pooling_from_config(
  config: ml_collections.ConfigDict, suggested: Mapping[str, float]
) -> nn.Module:
  """Return the pooling layer of a config.

  Args:
    config: Run config.
    suggested: Values of the fields that `missing_parameters` names.
  """
  values = {name: config.pooling[name] for name in _SECOND_ORDER_FIELDS}
  values.update(suggested)
  values["learnable"] = tuple(values["learnable"])
  if values["eta"] is not None and float(values["eta"]).is_integer():
    values["eta"] = int(values["eta"])  # Needs matrix products only.
  if config.pooling.order == 1:
    return FirstOrderPooling(**{name: values[name] for name in _FIRST_ORDER_FIELDS})
  if values["alpha"] is None:
    del values["alpha"]
  return SecondOrderPooling(**values, rank=config.classifier.rank)


def check_pooling(config: ml_collections.ConfigDict) -> None:
  """Raise ValueError if the fields of the pooling contradict each other."""
  pooling = config.pooling
  if pooling.order not in (1, 2):
    raise ValueError(f"pooling.order is {pooling.order}, expected 1 or 2.")
  for_second_order = {
    f"pooling.{name}": pooling[name]
    for name in ("spectral", "beta", "num_pivots", "reduction", "dropout")
  } | {"classifier.rank": config.classifier.rank}
  for name, value in for_second_order.items():
    if pooling.order == 1 and value:
      raise ValueError(
        f"{name} is {value}, but pooling.order is 1, which does not use it."
      )
  missing = missing_parameters(config)
  if pooling.reduction and missing:
    raise ValueError(
      f"pooling.{missing[0]} is None, expected a number: suggestions are for features "
      f"as they are, but pooling.reduction is {pooling.reduction}."
    )
  layer = pooling_from_config(config, dict.fromkeys(missing, 1.0))
  # Everything is abstract, so that nothing is compiled, not even the key.
  jax.eval_shape(lambda: layer.init(jax.random.key(0), jnp.zeros((1, 2, 2, 4))))


def missing_parameters(config: ml_collections.ConfigDict) -> list[str]:
  """Return the names of the pooling fields that must be suggested from features."""
  pooling = config.pooling
  names = []
  norm = ops.POWER_NORMS.get(pooling.power_norm)
  if norm is not None and norm.has_suggestion:
    names.append(norm.parameter)
  if pooling.order == 2 and pooling.num_pivots:
    names.append("alpha")
  return [name for name in names if pooling[name] is None]


def suggest_pooling_parameters(
  config: ml_collections.ConfigDict,
  num_images: int,
  feature_maps_at: Callable[[np.ndarray], jax.Array],
) -> dict[str, float]:
  """Suggest values for the fields that `missing_parameters` names.

  Args:
    config: Run config.
    num_images: Number of images to train on, of which a few are used.
    feature_maps_at: Function from indices of images to their feature maps,
      `[B, ..., d]`. It is not called if no field is missing.
  """
  missing = missing_parameters(config)
  if not missing:
    return {}
  count = min(_MAX_SUGGESTING_IMAGES, num_images)
  feature_maps = feature_maps_at(np.linspace(0, num_images - 1, count, dtype=int))
  values = _suggest(config.pooling, feature_maps)
  return {name: float(values[name]) for name in missing}


def _suggest(
  pooling: ml_collections.ConfigDict, feature_maps: jax.Array
) -> dict[str, jax.Array]:
  shape = feature_maps.shape
  phi = feature_maps.reshape(shape[0], -1, shape[-1]).astype(jnp.float32)
  phi = nn.relu(phi) if pooling.rectify else phi
  if pooling.order == 1:
    values = ops.suggest_first_order_parameters(jnp.mean(phi, axis=1))
  else:
    values = ops.suggest_parameters(ops.beta_center(phi, pooling.beta))
    if pooling.power_norm == "maxexp" and not pooling.spectral:
      values["eta"] = values["eta_prime"] / 2
  values["eta"] = jnp.round(values["eta"])
  return values


def check_image_size(config: ml_collections.ConfigDict, backbone: nn.Module) -> None:
  """Raise ValueError if images are too small for the backbone."""
  size = config.dataset.image_size
  if size < 1:
    raise ValueError(f"dataset.image_size is {size}, expected 1 or more.")
  too_small = (
    f"dataset.image_size is {size}, which is too small for {config.backbone.name}: "
  )
  images = jax.ShapeDtypeStruct((1, size, size, 3), jnp.float32)
  try:
    features, _ = jax.eval_shape(
      lambda x: backbone.init_with_output(jax.random.key(0), x), images
    )
  except ValueError as error:  # Of a ViT, about its patches.
    raise ValueError(f"{too_small}{error}") from error
  if 0 in features.shape:
    raise ValueError(f"{too_small}its feature map would have no positions.")
