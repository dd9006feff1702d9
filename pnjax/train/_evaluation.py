"""Exact evaluation of a network on a split."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

import numpy as np

from pnjax import probe
from pnjax import runtime
from pnjax.train._step import Evaluation


class Outcome(NamedTuple):
  """The evaluation of a classifier.

  Attributes:
    metrics: Result of `summarize`.
    predictions: Predicted class of every example.
  """

  metrics: dict[str, Any]
  predictions: np.ndarray


def evaluate(
  eval_step: Callable,
  variables: Mapping,
  batches: Iterable[Mapping[str, np.ndarray]],
  num_examples: int,
  num_classes: int,
  devices: runtime.Devices,
  refit: probe.LinearClassifier | None = None,
) -> dict[str, Outcome]:
  """Evaluate every example once, whatever the number of devices.

  Args:
    eval_step: `eval_step` on all devices.
    variables: Variables of the network, replicated over all devices.
    batches: Batches of this host, padded and masked; `index` has the position of each
      example in the split.
    num_examples: Number of examples in the split.
    num_classes: Number of classes.
    devices: Devices that share the work.
    refit: Refit classifier to evaluate as well.

  Returns:
    The outcome of each classifier: `softmax` and, if there is one, `refit`.
  """
  names = ("softmax",) if refit is None else ("softmax", "refit")
  totals = {name: Evaluation.zero(num_classes) for name in names}
  refit, totals = devices.replicate((refit, totals))
  predictions = {name: np.full(num_examples, -1, np.int32) for name in names}
  for batch in batches:
    index, mask = batch["index"], batch["mask"]
    shards = devices.shard({k: v for k, v in batch.items() if k != "index"})
    totals, out = eval_step((variables, refit, totals), shards)
    for name in names:
      predicted = np.concatenate(np.asarray(out[name]))[: len(index)]
      predictions[name][index[mask]] = predicted[mask]
  outcomes = {}
  for name in names:
    total, predicted = runtime.to_host(totals[name]), predictions[name]
    if devices.num_hosts > 1:
      predicted = devices.gather(predicted[None]).max(axis=0)
    metrics = summarize(float(total.loss), total.confusion)
    outcomes[name] = Outcome(metrics, predicted)
  return outcomes


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
