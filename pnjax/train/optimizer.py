"""Optimizer, learning rate, and which layers learn."""

from collections.abc import Iterable

import jax
import jax.numpy as jnp
import ml_collections
import optax

# Layers of the backbone that learn, by backbone and by `config.train.freeze`.
_LEARNING_LAYERS: dict[tuple[str, str], tuple[str, ...]] = {
  ("alexnet", "last_two_convs"): ("conv4", "conv5"),
  ("resnet50", "last_two_convs"): (
    "layer4.block2.conv2",
    "layer4.block2.bn2",
    "layer4.block2.conv3",
    "layer4.block2.bn3",
  ),
  ("resnet50", "last_stage"): ("layer4",),
  ("tiny_resnet", "last_two_convs"): (
    "layer2.block0.conv2",
    "layer2.block0.bn2",
    "layer2.block0.conv3",
    "layer2.block0.bn3",
  ),
  ("tiny_resnet", "last_stage"): ("layer2",),
}


def learns(paths: Iterable[str], backbone: str, freeze: str) -> dict[str, bool]:
  """Returns for the path of every parameter whether it learns.

  Args:
    paths: of the parameters of a `Classifier`.
    backbone: its name, as in `config.backbone.name`.
    freeze: as in `config.train.freeze`.
  """
  if freeze in ("all", "backbone"):
    return {path: freeze == "all" or not _is_backbone(path) for path in paths}
  if (backbone, freeze) not in _LEARNING_LAYERS:
    known = [f for b, f in _LEARNING_LAYERS if b == backbone]
    raise ValueError(
      f"train.freeze is {freeze!r}, expected one of "
      f"{', '.join(['all', 'backbone', *known])} for {backbone}."
    )
  names = _LEARNING_LAYERS[backbone, freeze]
  layers = tuple(f"backbone.{name}." for name in names)
  return {p: not _is_backbone(p) or p.startswith(layers) for p in paths}


def learning_rate(
  config: ml_collections.ConfigDict, steps_per_epoch: int, num_epochs: int
) -> optax.Schedule:
  """Returns the rate of each step: constant in an epoch, log-spaced over epochs."""
  first, last = config.learning_rate, config.final_learning_rate
  if first <= 0 or last <= 0:
    raise ValueError(
      f"optim.learning_rate is {first} and optim.final_learning_rate {last}, expected "
      "positive numbers."
    )

  def schedule(step):
    epoch = jnp.minimum(step // steps_per_epoch, num_epochs - 1)
    progress = epoch.astype(jnp.float32) / max(num_epochs - 1, 1)
    return first * (last / first) ** progress

  return schedule


def make(
  config: ml_collections.ConfigDict, schedule: optax.Schedule
) -> optax.GradientTransformation:
  """Returns the optimizer of `config.optim`, for parameters by their paths."""
  directions = {
    "rmsprop": lambda: _rmsprop(config.decay, config.momentum),
    "adam": optax.scale_by_adam,
    "sgd": lambda: optax.trace(config.momentum),
  }
  if config.name not in directions:
    raise ValueError(
      f"optim.name is {config.name!r}, expected one of {', '.join(directions)}."
    )
  steps = [directions[config.name]()]
  if config.clip_norm is not None:
    steps.insert(0, optax.clip_by_global_norm(config.clip_norm))
  if config.weight_decay:
    steps.append(optax.add_decayed_weights(config.weight_decay, mask=_are_kernels))
  steps.append(optax.scale_by_learning_rate(schedule))
  if config.head_multiplier != 1:
    steps.append(optax.masked(optax.scale(config.head_multiplier), _are_head))
  return optax.chain(*steps)


def _rmsprop(decay: float, momentum: float) -> optax.GradientTransformation:
  # As in PyTorch and Caffe, the networks of the paper: ε outside of the root.
  scale = optax.scale_by_rms(decay=decay, eps=1e-8, eps_in_sqrt=False)
  return optax.chain(scale, optax.trace(momentum)) if momentum else scale


def _are_kernels(params: dict[str, jax.Array]) -> dict[str, bool]:
  return {path: p.ndim > 1 for path, p in params.items()}


def _are_head(params: dict[str, jax.Array]) -> dict[str, bool]:
  return {path: not _is_backbone(path) for path in params}


def _is_backbone(path: str) -> bool:
  return path.startswith("backbone.")
