"""One step of training and one of evaluation, as pure functions.

They see the examples of one device. What they add up over examples goes through
`total`, which adds it up over devices as well, or does nothing where there is only one.
"""

from collections.abc import Callable
from collections.abc import Mapping
import dataclasses

from flax import linen as nn
import jax
from jax import lax
import jax.numpy as jnp
import optax

from pnjax.train import state as state_lib
from pnjax.train import thinning
from pnjax.train.state import TrainState

Batch = Mapping[str, jax.Array]
Total = Callable[[jax.Array], jax.Array]


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
  """What is learned, and how.

  Attributes:
    model: a `pnjax.models.Classifier`.
    preprocess: from uint8 pictures `[B, H, W, 3]` to what the model takes.
    optimizer: of the parameters that learn.
    num_classes: number of classes.
    label_smoothing: share of the labels that is spread over all classes.
    accumulate: parts in which a batch is computed.
    after: stage of the backbone that cached features come from; None for the last.
  """

  model: nn.Module
  preprocess: Callable[[jax.Array], jax.Array]
  optimizer: optax.GradientTransformation
  num_classes: int
  label_smoothing: float = 0.0
  accumulate: int = 1
  after: str | None = None


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Evaluation:
  """Sums over evaluated examples.

  Attributes:
    loss: sum of the losses.
    confusion: number of examples by label and predicted class, `[C, C]`.
  """

  loss: jax.Array
  confusion: jax.Array

  @classmethod
  def empty(cls, num_classes: int) -> "Evaluation":
    """Returns zeros."""
    confusion = jnp.zeros((num_classes, num_classes), jnp.int32)
    return cls(jnp.zeros((), jnp.float32), confusion)


def train_step(
  task: Task, state: TrainState, batch: Batch, total: Total
) -> tuple[TrainState, dict[str, jax.Array]]:
  """Takes one step of the optimizer.

  Args:
    task: what is learned.
    state: before the step.
    batch: `label` `[b]`, `mask` `[b]` that leaves padding out, and `image`
      `[b, H, W, 3]` or `[b, P, H, W, 3]` in uint8, or `features` from a cache.
    total: sums over devices.

  Returns:
    The state after the step, and the mean `loss` of its examples.
  """
  count = total(jnp.sum(batch["mask"].astype(jnp.float32)))
  key = jax.random.fold_in(jax.random.wrap_key_data(state.key), state.step)

  def objective(learned, batch_stats, part, key):
    variables = state_lib.join(learned, state.frozen, batch_stats)
    logits, batch_stats = _logits(task, variables, part, key)
    losses = _losses(logits, part["label"], task.label_smoothing)
    loss = jnp.sum(losses, where=part["mask"]) / count
    correct = (jnp.argmax(logits, axis=-1) == part["label"]) & part["mask"]
    return loss, (batch_stats, jnp.sum(correct.astype(jnp.float32)))

  def add_part(carry, part_and_key):
    grads, loss, correct, batch_stats = carry
    (part_loss, (batch_stats, part_correct)), part_grads = jax.value_and_grad(
      objective, has_aux=True
    )(state.learned, batch_stats, *part_and_key)
    grads = jax.tree.map(jnp.add, grads, part_grads)
    return (grads, loss + part_loss, correct + part_correct, batch_stats), None

  zero = jnp.zeros((), jnp.float32)
  carry = (jax.tree.map(jnp.zeros_like, state.learned), zero, zero, state.batch_stats)
  parts = jax.tree.map(lambda x: _split(x, task.accumulate), dict(batch))
  keys = jax.random.split(key, task.accumulate)
  if task.accumulate == 1:
    # As a loop of one turn it took more than twice the time on a CPU.
    only = jax.tree.map(lambda x: x[0], (parts, keys))
    (grads, loss, correct, batch_stats), _ = add_part(carry, only)
  else:
    (grads, loss, correct, batch_stats), _ = lax.scan(add_part, carry, (parts, keys))
  grads, loss, correct = jax.tree.map(total, (grads, loss, correct))

  updates, opt_state = task.optimizer.update(grads, state.opt_state, state.learned)
  finite = jnp.isfinite(loss) & jnp.isfinite(optax.tree.norm(grads))
  state = state.replace(
    step=state.step + 1,
    learned=optax.apply_updates(state.learned, updates),
    batch_stats=batch_stats,
    opt_state=opt_state,
    tally=_count(state.tally, state.step + 1, loss * count, correct, count, finite),
  )
  return state, {"loss": loss}


def eval_step(
  task: Task,
  carry: tuple[Mapping, Evaluation],
  batch: Batch,
  total: Total,
) -> tuple[Evaluation, dict[str, jax.Array]]:
  """Adds a batch to an evaluation.

  Args:
    task: what was learned.
    carry: the variables of the model, and the evaluation so far.
    batch: as in `train_step`.
    total: sums over devices.

  Returns:
    The evaluation, and the `prediction` `[b]` for each example.
  """
  variables, so_far = carry
  logits, _ = _logits(task, variables, batch)
  prediction = jnp.argmax(logits, axis=-1).astype(jnp.int32)
  losses = _losses(logits, batch["label"], label_smoothing=0.0)
  confusion = jnp.zeros_like(so_far.confusion)
  confusion = confusion.at[batch["label"], prediction].add(
    batch["mask"].astype(jnp.int32)
  )
  evaluation = Evaluation(
    loss=so_far.loss + total(jnp.sum(losses, where=batch["mask"])),
    confusion=so_far.confusion + total(confusion),
  )
  return evaluation, {"prediction": prediction}


def _logits(task, variables, batch, key=None):
  """Returns logits and, when training (there is a key), statistics of batch norm."""
  train = key is not None
  kwargs = {"mutable": ["batch_stats"], "rngs": {"dropout": key}} if train else {}
  if "features" in batch:
    maps = batch["features"].astype(jnp.float32)
    if task.after is not None:
      maps = thinning.fill(maps, task.model.backbone.read_every(task.after))
    out = task.model.apply(
      variables, maps, train, task.after, method="from_features", **kwargs
    )
  else:
    images = batch["image"]
    pictures = task.preprocess(images.reshape(-1, *images.shape[-3:]))
    out = task.model.apply(variables, pictures.reshape(images.shape), train, **kwargs)
  if not train:
    return out, None
  logits, updated = out
  return logits, updated.get("batch_stats", variables["batch_stats"])


def _losses(logits, labels, label_smoothing):
  targets = optax.smooth_labels(
    jax.nn.one_hot(labels, logits.shape[-1]), label_smoothing
  )
  return optax.softmax_cross_entropy(logits, targets)


def _split(x, parts):
  return x.reshape(parts, -1, *x.shape[1:])


def _count(tally, step, loss, correct, count, finite):
  first = (tally.bad_step < 0) & ~finite
  return state_lib.Tally(
    loss=tally.loss + loss,
    correct=tally.correct + correct,
    count=tally.count + count,
    bad_step=jnp.where(first, step, tally.bad_step),
  )
