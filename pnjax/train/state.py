"""What a step of training changes."""

from collections.abc import Mapping

from flax import struct
from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import optax

# Parameters by their paths, such as "backbone.conv1.kernel".
Params = dict[str, jax.Array]


class TrainState(struct.PyTreeNode):
  """Everything that one step hands to the next.

  Attributes:
    step: number of steps taken.
    learned: parameters that learn, by their paths.
    frozen: parameters that do not.
    batch_stats: statistics of batch norm.
    opt_state: state of the optimizer.
    key: data of the random key of the run.
    tally: what was counted since the last record.
  """

  step: jax.Array
  learned: Params
  frozen: Params
  batch_stats: Mapping
  opt_state: optax.OptState
  key: jax.Array
  tally: "Tally"

  @property
  def variables(self) -> dict[str, Mapping]:
    """The variables of the model."""
    return join(self.learned, self.frozen, self.batch_stats)


class Tally(struct.PyTreeNode):
  """Sums over the steps since the last record.

  They are part of the state, so that a run that continues from any checkpoint writes
  the same records, and no step waits for a number to reach the host.

  Attributes:
    loss: sum of the losses of all examples.
    correct: number of examples that were classified correctly.
    count: number of examples.
    bad_step: first step whose loss or gradient was not finite, or -1.
  """

  loss: jax.Array
  correct: jax.Array
  count: jax.Array
  bad_step: jax.Array

  @classmethod
  def empty(cls) -> "Tally":
    """Returns zeros."""
    # Buffers of their own, since a step takes them over.
    loss, correct, count = (np.zeros((), np.float32) for _ in range(3))
    return cls(loss, correct, count, np.full((), -1, np.int32))


def paths(variables: Mapping) -> list[str]:
  """Returns the paths of all parameters."""
  return list(traverse_util.flatten_dict(variables["params"], sep="."))


def create(
  variables: Mapping,
  learns: Mapping[str, bool],
  optimizer: optax.GradientTransformation,
  seed: int,
) -> TrainState:
  """Returns the state before the first step.

  Args:
    variables: of the model.
    learns: for the path of every parameter, whether it learns.
    optimizer: is applied to the parameters that learn.
    seed: of the random key.
  """
  params = traverse_util.flatten_dict(variables["params"], sep=".")
  learned = {path: p for path, p in params.items() if learns[path]}
  return TrainState(
    step=jnp.zeros((), jnp.int32),
    learned=learned,
    frozen={path: p for path, p in params.items() if not learns[path]},
    batch_stats=variables.get("batch_stats", {}),
    opt_state=optimizer.init(learned),
    key=jax.random.key_data(jax.random.key(seed)),
    tally=Tally.empty(),
  )


def join(learned: Params, frozen: Params, batch_stats: Mapping) -> dict[str, Mapping]:
  """Returns the variables of a model from the parts of its state."""
  params = traverse_util.unflatten_dict(learned | frozen, sep=".")
  return {"params": params, "batch_stats": batch_stats}
