"""One step of training and one of evaluation, as pure functions.

They see the examples of one device. Sums over examples go through `psum`, which sums
over devices as well; on a single device it may be the identity.
"""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses
from typing import Any

import jax
from jax import lax
import jax.numpy as jnp
import optax

from pnjax import features
from pnjax import models
from pnjax import ops
from pnjax import probe
from pnjax.train._state import TrainState

Batch = Mapping[str, jax.Array]
Psum = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
  """The network that is trained, and how.

  Attributes:
    model: The network.
    preprocess: Function from uint8 images to the input of the network.
    optimizer: Optimizer of the trainable parameters.
    label_smoothing: Share of a label that is spread over all classes.
    num_microbatches: Number of parts that a batch is computed in.
    cached_stage: Stage of the backbone that cached features come from; None for the
      last.
  """

  model: models.ImageClassifier
  preprocess: Callable[[jax.Array], jax.Array]
  optimizer: optax.GradientTransformation
  label_smoothing: float = 0.0
  num_microbatches: int = 1
  cached_stage: str | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Evaluation:
  """Sums over evaluated examples.

  Attributes:
    loss: Sum of the losses.
    confusion: Number of examples by label and predicted class, `[C, C]`.
  """

  loss: jax.Array
  confusion: jax.Array

  @classmethod
  def zero(cls, num_classes: int) -> "Evaluation":
    """Return sums over no examples."""
    confusion = jnp.zeros((num_classes, num_classes), jnp.int32)
    return cls(jnp.zeros((), jnp.float32), confusion)


def train_step(
  task: Task, state: TrainState, batch: Batch, psum: Psum
) -> tuple[TrainState, dict[str, jax.Array]]:
  """Take one step of the optimizer.

  Args:
    task: The network and its optimizer.
    state: State before the step.
    batch: `label` `[b]`; `mask` `[b]`, False for padding; `image`, uint8 `[b, H, W, 3]`
      or `[b, P, H, W, 3]`, or `features` from a cache; and, with several devices,
      `position` `[b]` in the batch of all of them.
    psum: Sum over devices.

  Returns:
    The state after the step, and the mean `loss` of the examples.
  """
  batch = {"position": jnp.arange(len(batch["label"])), **batch}
  count = psum(jnp.sum(batch["mask"].astype(jnp.float32)))
  key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.step)

  def objective(trainable, batch_stats, microbatch):
    variables = models.join_variables(trainable, state.frozen, batch_stats)
    # Each device and each microbatch drops other entries.
    own_key = jax.random.fold_in(key, microbatch["position"][0])
    logits, batch_stats = _train_logits(task, variables, microbatch, own_key)
    losses = _losses(logits, microbatch["label"], task.label_smoothing)
    loss = jnp.sum(losses, where=microbatch["mask"]) / count
    correct = (jnp.argmax(logits, axis=-1) == microbatch["label"]) & microbatch["mask"]
    return loss, (batch_stats, jnp.sum(correct.astype(jnp.float32)))

  def add_microbatch(carry, microbatch):
    grads, loss, correct, batch_stats = carry
    (new_loss, (batch_stats, new_correct)), new_grads = jax.value_and_grad(
      objective, has_aux=True
    )(state.trainable, batch_stats, microbatch)
    grads = jax.tree.map(jnp.add, grads, new_grads)
    return (grads, loss + new_loss, correct + new_correct, batch_stats), None

  num = task.num_microbatches
  zero = jnp.zeros((), jnp.float32)
  carry = (jax.tree.map(jnp.zeros_like, state.trainable), zero, zero, state.batch_stats)
  microbatches = jax.tree.map(lambda x: x.reshape(num, -1, *x.shape[1:]), batch)
  if num == 1:
    # As a loop of one iteration, it took more than twice as long on a CPU.
    only = jax.tree.map(lambda x: x[0], microbatches)
    (grads, loss, correct, batch_stats), _ = add_microbatch(carry, only)
  else:
    (grads, loss, correct, batch_stats), _ = lax.scan(
      add_microbatch, carry, microbatches
    )
  grads, loss, correct = jax.tree.map(psum, (grads, loss, correct))

  with jax.numpy_dtype_promotion("standard"):  # Optax relies on it.
    updates, opt_state = task.optimizer.update(grads, state.opt_state, state.trainable)
  finite = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(grads))
  state = state.replace(
    step=state.step + 1,
    trainable=optax.apply_updates(state.trainable, updates),
    batch_stats=batch_stats,
    opt_state=opt_state,
    sums=state.sums.add(state.step + 1, loss * count, correct, count, finite),
  )
  return state, {"loss": loss}


def eval_step(
  task: Task,
  carry: tuple[Mapping[str, Any], probe.LinearClassifier | None, dict[str, Evaluation]],
  batch: Batch,
  psum: Psum,
) -> tuple[dict[str, Evaluation], dict[str, jax.Array]]:
  """Add a batch to the evaluations of the classifiers.

  Args:
    task: The network.
    carry: Variables of the network, the refit classifier if there is one, and the
      evaluations so far.
    batch: As in `train_step`, without `position`.
    psum: Sum over devices.

  Returns:
    The evaluation of each classifier, and its prediction `[b]` for each example.
  """
  variables, refit, so_far = carry
  vectors = pool_step(task, variables, batch)
  logits: dict[str, Any] = {
    "softmax": task.model.apply(variables, vectors, method="classify")
  }
  if refit is not None:
    logits["refit"] = refit(ops.l2_normalize(vectors))
  predictions = {
    name: jnp.argmax(x, axis=-1).astype(jnp.int32) for name, x in logits.items()
  }
  evaluations = {
    name: _add(so_far[name], x, predictions[name], batch, psum)
    for name, x in logits.items()
  }
  return evaluations, predictions


def pool_step(task: Task, variables: Mapping[str, Any], batch: Batch) -> jax.Array:
  """Return the pooled vectors of a batch, `[b, D]`."""
  return _apply(task, variables, batch, "pooled", "pooled_from_features")


def _add(so_far, logits, prediction, batch, psum):
  """Return an evaluation with the examples of a batch."""
  losses = _losses(logits, batch["label"], label_smoothing=0.0)
  confusion = jnp.zeros_like(so_far.confusion)
  confusion = confusion.at[batch["label"], prediction].add(
    batch["mask"].astype(jnp.int32)
  )
  return Evaluation(
    loss=so_far.loss + psum(jnp.sum(losses, where=batch["mask"])),
    confusion=so_far.confusion + psum(confusion),
  )


def _train_logits(task, variables, batch, key):
  """Return logits and the statistics of batch norm."""
  logits, updated = _apply(
    task,
    variables,
    batch,
    "__call__",
    "from_features",
    train=True,
    mutable=["batch_stats"],
    rngs={"dropout": key},
  )
  return logits, updated.get("batch_stats", variables["batch_stats"])


def _apply(task, variables, batch, on_images, on_features, train=False, **options):
  """Apply one method of the model to images, or another to cached feature maps."""
  if "features" not in batch:
    x = task.preprocess(batch["image"])
    return task.model.apply(variables, x, train, method=on_images, **options)
  x, stage = batch["features"].astype(jnp.float32), task.cached_stage
  if stage is not None:
    x = features.upsample(x, task.model.backbone.stride_after(stage))
  return task.model.apply(variables, x, train, stage, method=on_features, **options)


def _losses(logits, labels, label_smoothing):
  targets = optax.smooth_labels(
    jax.nn.one_hot(labels, logits.shape[-1]), label_smoothing
  )
  return optax.softmax_cross_entropy(logits, targets)
