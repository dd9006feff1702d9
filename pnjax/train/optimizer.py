"""The optimizer of a config and its learning rate."""

import math

import jax
import jax.numpy as jnp
import ml_collections
import optax

# Of the SGD by which a classifier learns that has a rate of its own.
_CLASSIFIER_MOMENTUM = 0.9


def learning_rate(
  config: ml_collections.ConfigDict, steps_per_epoch: int, num_epochs: int
) -> optax.Schedule:
  """Returns the rate of each step: constant in an epoch, log-spaced over epochs."""
  first, last = config.learning_rate, config.final_learning_rate
  if not (0 < first < math.inf and 0 < last < math.inf):  # NaN is refused, too.
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
  _check(config)
  direction = directions[config.name]
  rates = {
    "backbone": 1.0,
    "pooling": config.head_multiplier,
    "classifier": config.head_multiplier,
  }
  steps = [direction()]
  if config.classifier_rate:
    # Relative to the rate of the backbone, with which it falls.
    rates["classifier"] = config.classifier_rate / config.learning_rate
    own = {"classifier": optax.trace(_CLASSIFIER_MOMENTUM)}
    steps = [optax.partition({part: direction() for part in rates} | own, _parts)]
  if config.clip_norm is not None:
    steps.insert(0, optax.clip_by_global_norm(config.clip_norm))
  if config.weight_decay:
    steps.append(optax.add_decayed_weights(config.weight_decay, mask=_are_kernels))
  steps.append(optax.scale_by_learning_rate(schedule))
  scales = {part: optax.scale(rate) for part, rate in rates.items()}
  return optax.chain(*steps, optax.partition(scales, _parts))


def _check(config: ml_collections.ConfigDict) -> None:
  for name in ("decay", "momentum"):
    if not 0 <= config[name] < 1:
      raise ValueError(f"optim.{name} is {config[name]}, expected from 0 to below 1.")
  for name in ("weight_decay", "classifier_rate"):
    if not config[name] >= 0:
      raise ValueError(f"optim.{name} is {config[name]}, expected 0 or more.")
  if config.clip_norm is not None and not config.clip_norm > 0:
    raise ValueError(f"optim.clip_norm is {config.clip_norm}, expected more than 0.")


def _rmsprop(decay: float, momentum: float) -> optax.GradientTransformation:
  # As in PyTorch and Caffe ε is outside of the root. There, the average of squares
  # starts from zero, so that the first step is 1/√(1 − decay) = 10 times as large as
  # the rate says; a pretrained ResNet-50 did not survive that at the paper's 1e-4. The
  # weights of the average add up to 1 − decayᵗ at step t, by which it is corrected.
  def correction(count):
    return jnp.sqrt(1 - decay ** (count + 1).astype(jnp.float32))

  steps = [
    optax.scale_by_rms(decay=decay, eps=1e-8, eps_in_sqrt=False),
    optax.scale_by_schedule(correction),
  ]
  return optax.chain(*steps, *([optax.trace(momentum)] if momentum else []))


def _are_kernels(params: dict[str, jax.Array]) -> dict[str, bool]:
  return {path: p.ndim > 1 for path, p in params.items()}


def _parts(params: dict[str, jax.Array]) -> dict[str, str]:
  """Returns for each path what it belongs to in a `pnjax.models.Classifier`."""
  names = {"backbone": "backbone", "head": "classifier"}
  return {path: names.get(path.split(".")[0], "pooling") for path in params}
