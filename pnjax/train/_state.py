"""The state of training."""

from collections.abc import Mapping
from typing import Any

from flax import struct
from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import optax

from pnjax import models
from pnjax import runtime

# Parameters by their paths, such as "backbone.conv1.kernel".
Params = dict[str, jax.Array]
Scalar = jax.Array | np.ndarray


class NonFiniteLossError(Exception):
  """The loss or its gradient became infinite or NaN."""


class RunningSums(struct.PyTreeNode):
  """Sums over the steps since the last record.

  They are part of the state, so that a run that resumes from any checkpoint writes the
  same records, and no step waits for a number to reach the host.

  Attributes:
    loss: Sum of the losses of all examples.
    correct: Number of correctly classified examples.
    count: Number of examples.
    bad_step: First step whose loss or gradient was not finite, or -1.
  """

  loss: Scalar
  correct: Scalar
  count: Scalar
  bad_step: Scalar

  @classmethod
  def zero(cls) -> "RunningSums":
    """Return sums over no steps."""
    # Each has its own buffer, since a step donates them.
    loss, correct, count = (np.zeros((), np.float32) for _ in range(3))
    return cls(loss, correct, count, np.full((), -1, np.int32))

  def add(
    self,
    step: jax.Array,
    loss: jax.Array,
    correct: jax.Array,
    count: jax.Array,
    finite: jax.Array,
  ) -> "RunningSums":
    """Return the sums with those of another step."""
    is_first_bad = (self.bad_step < 0) & ~finite
    return RunningSums(
      loss=self.loss + loss,
      correct=self.correct + correct,
      count=self.count + count,
      bad_step=jnp.where(is_first_bad, step, self.bad_step),
    )


class TrainState(struct.PyTreeNode):
  """Training state.

  Attributes:
    step: Number of steps taken.
    trainable: Trainable parameters by their paths.
    frozen: Frozen parameters by their paths.
    batch_stats: Statistics of batch norm.
    opt_state: State of the optimizer.
    key: Data of the random key of the run.
    sums: Sums over the steps since the last record.
  """

  step: jax.Array
  trainable: Params
  frozen: Params
  batch_stats: Mapping[str, Any]
  opt_state: optax.OptState
  key: jax.Array
  sums: RunningSums

  @property
  def variables(self) -> dict[str, Any]:
    """Variables of the network."""
    return models.join_variables(self.trainable, self.frozen, self.batch_stats)


def parameter_paths(variables: Mapping[str, Any]) -> list[str]:
  """Return the paths of all parameters."""
  return list(traverse_util.flatten_dict(variables["params"], sep="."))


def create_state(
  variables: Mapping[str, Any],
  is_trainable: Mapping[str, bool],
  optimizer: optax.GradientTransformation,
  seed: int,
) -> TrainState:
  """Return the state before the first step.

  Args:
    variables: Variables of the network.
    is_trainable: Whether each parameter trains, by its path.
    optimizer: Optimizer of the trainable parameters.
    seed: Seed of the random key.
  """
  params = traverse_util.flatten_dict(variables["params"], sep=".")
  trainable = {path: p for path, p in params.items() if is_trainable[path]}
  return TrainState(
    step=jnp.zeros((), jnp.int32),
    trainable=trainable,
    frozen={path: p for path, p in params.items() if not is_trainable[path]},
    batch_stats=variables.get("batch_stats", {}),
    opt_state=optimizer.init(trainable),
    key=jax.random.key_data(jax.random.key(seed)),
    sums=RunningSums.zero(),
  )


def check_finite(state: TrainState, saved_step: int | None) -> None:
  """Raise NonFiniteLossError if a step since the last record was not finite.

  Args:
    state: Training state.
    saved_step: Step of the last checkpoint, if any, which the error names.
  """
  bad_step = runtime.to_host(state.sums.bad_step)
  if bad_step >= 0:
    last = f"step {saved_step}" if saved_step else "none yet"
    raise NonFiniteLossError(
      f"the loss or its gradient is not finite at step {bad_step}; the last good "
      f"checkpoint is kept ({last}). Try a smaller optim.learning_rate "
      "or optim.clip_norm."
    )
