"""Exact evaluation of a network on a split."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

import numpy as np

from pnjax import runtime
from pnjax.train._step import Evaluation


def evaluate(
  eval_step: Callable,
  variables: Mapping,
  batches: Iterable[Mapping[str, np.ndarray]],
  num_examples: int,
  num_classes: int,
  devices: runtime.Devices,
) -> tuple[dict[str, Any], np.ndarray]:
  """Evaluate every example once, whatever the number of devices.

  Args:
    eval_step: `eval_step` on all devices.
    variables: Variables of the network, replicated over all devices.
    batches: Batches of this host, padded and masked; `index` has the position of each
      example in the split.
    num_examples: Number of examples in the split.
    num_classes: Number of classes.
    devices: Devices that share the work.

  Returns:
    The result of `summarize`, and the predicted class of every example.
  """
  total = devices.replicate(Evaluation.zero(num_classes))
  predictions = np.full(num_examples, -1, np.int32)
  for batch in batches:
    index, mask = batch["index"], batch["mask"]
    shards = devices.shard({k: v for k, v in batch.items() if k != "index"})
    total, out = eval_step((variables, total), shards)
    predicted = np.concatenate(np.asarray(out["prediction"]))[: len(index)]
    predictions[index[mask]] = predicted[mask]
  if devices.num_hosts > 1:
    predictions = devices.gather(predictions[None]).max(axis=0)
  total = runtime.to_host(total)
  return summarize(float(total.loss), total.confusion), predictions


def confusion_matrix(
  labels: np.ndarray, predictions: np.ndarray, num_classes: int
) -> np.ndarray:
  """Return the number of examples by label and predicted class, `[C, C]`."""
  confusion = np.zeros((num_classes, num_classes), int)
  np.add.at(confusion, (labels, predictions), 1)
  return confusion


def summarize(loss: float, confusion: np.ndarray) -> dict[str, Any]:
  """Return the reported metrics.

  Args:
    loss: Sum of the losses of all examples.
    confusion: Number of examples by label and predicted class, `[C, C]`.

  Returns:
    `top1`, the share of correctly classified examples; `mean_per_class`, the mean of
    that share over the classes that occur; the mean `loss`; `num_examples`; and
    `per_class`, the share for each class, None for a class without examples.
  """
  correct, count = np.diagonal(confusion), confusion.sum(axis=1)
  occurs = count > 0
  per_class = correct[occurs] / count[occurs]
  num_examples = int(count.sum())
  shares = iter(per_class)
  return {
    "top1": float(correct.sum() / num_examples),
    "mean_per_class": float(per_class.mean()),
    "loss": loss / num_examples,
    "num_examples": num_examples,
    "per_class": [float(next(shares)) if present else None for present in occurs],
  }
