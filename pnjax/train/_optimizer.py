"""The optimizer of a config and its learning rate."""

import functools

import jax
import ml_collections
import optax

from pnjax import config as config_lib


def learning_rate(
  config: ml_collections.ConfigDict, steps_per_epoch: int, num_epochs: int
) -> optax.Schedule:
  """Return the learning rate: constant within an epoch, log-spaced over epochs.

  Args:
    config: The group `optim` of a run config.
    steps_per_epoch: Number of steps per epoch.
    num_epochs: Number of epochs.
  """
  for name in ("learning_rate", "final_learning_rate"):
    config_lib.check_value(f"optim.{name}", config[name])
  first, last = config.learning_rate, config.final_learning_rate
  # `optax.exponential_decay` with `staircase` divides by the number of steps. Compiled,
  # that is a product with the reciprocal, whose rounding can move a step into the
  # wrong epoch (with 41 steps per epoch, for instance).
  factor = (last / first) ** (1 / max(num_epochs - 1, 1))
  borders = {steps_per_epoch * epoch: factor for epoch in range(1, num_epochs)}
  return optax.piecewise_constant_schedule(first, borders)


def make_optimizer(
  config: ml_collections.ConfigDict, schedule: optax.Schedule
) -> optax.GradientTransformation:
  """Return the optimizer of a config, for parameters by their paths.

  Args:
    config: Run config.
    schedule: Learning rate.
  """
  config_lib.check_values(config)
  optim = config.optim
  directions = {
    "rmsprop": lambda: _rmsprop(optim.decay, optim.momentum),
    "adam": optax.scale_by_adam,
    "sgd": lambda: optax.trace(optim.momentum),
  }
  steps = [directions[optim.name]()]
  if optim.clip_norm is not None:
    steps.insert(0, optax.clip_by_global_norm(optim.clip_norm))
  decays = dict.fromkeys(("backbone", "pooling"), optim.weight_decay)
  for part, decay in (decays | {"classifier": config.classifier.weight_decay}).items():
    if decay:
      kernels = functools.partial(_kernels_of, part)
      steps.append(optax.add_decayed_weights(decay, mask=kernels))
  return optax.chain(*steps, optax.scale_by_learning_rate(schedule))


def _rmsprop(decay: float, momentum: float) -> optax.GradientTransformation:
  # As in PyTorch and Caffe, ε is outside of the root. There, the average of squares
  # starts from zero, so that the first step is 1/√(1 − decay) = 10 times as long as
  # the rate says, which a pretrained ResNet-50 did not survive at the paper's 1e-4.
  # Bias correction makes the first steps as long as the others.
  steps = [optax.scale_by_rms(decay, eps=1e-8, eps_in_sqrt=False, bias_correction=True)]
  return optax.chain(*steps, *([optax.trace(momentum)] if momentum else []))


def _kernels_of(part: str, params: dict[str, jax.Array]) -> dict[str, bool]:
  """Return for each path whether it is a kernel of a part of an `ImageClassifier`."""
  return {path: p.ndim > 1 and path.split(".")[0] == part for path, p in params.items()}
