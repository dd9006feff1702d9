import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import runtime
from pnjax import train


def test_summary_by_hand():
  confusion = np.array([[3, 1, 0], [0, 5, 0], [2, 0, 1]])
  summary = train.summarize(6.0, confusion)
  assert summary == {
    "top1": pytest.approx(9 / 12),
    "mean_per_class": pytest.approx((3 / 4 + 1 + 1 / 3) / 3),
    "loss": 0.5,
    "num_examples": 12,
    "per_class": pytest.approx([3 / 4, 1, 1 / 3]),
  }


def test_classes_without_examples_do_not_count():
  confusion = np.array([[1, 1, 0], [0, 0, 0], [0, 0, 4]])
  summary = train.summarize(6.0, confusion)
  assert summary["top1"] == pytest.approx(5 / 6)
  assert summary["mean_per_class"] == pytest.approx(3 / 4)
  assert summary["per_class"] == [0.5, None, 1.0]


def _step(carry, batch, psum):
  """Predicts what the batch says; the loss of an example is 1."""
  scale, refit, so_far = carry
  assert refit is None
  mask = batch["mask"].astype(jnp.int32)
  before = so_far["softmax"]
  confusion = jnp.zeros_like(before.confusion)
  confusion = confusion.at[batch["label"], batch["guess"]].add(mask)
  loss = scale * jnp.sum(mask.astype(jnp.float32))
  after = train.Evaluation(before.loss + psum(loss), before.confusion + psum(confusion))
  return {"softmax": after}, {"softmax": batch["guess"]}


@pytest.mark.parametrize("num_devices", [1, 2])
def test_every_example_counts_once(num_devices):
  labels = np.array([0, 1, 2, 0, 1], np.int32)
  guesses = np.array([0, 1, 0, 2, 1], np.int32)
  indices = np.array([[4, 2, 0], [1, 3, -1]])  # -1 is padding.
  batches = [
    {"label": labels[i], "guess": guesses[i], "index": i, "mask": i >= 0}
    for i in indices
  ]
  devices = runtime.Devices(jax.devices()[:num_devices])
  outcomes = train.evaluate(
    devices.parallelize(_step, donate=False),
    devices.replicate(jnp.float32(1)),
    batches,
    num_examples=5,
    num_classes=3,
    devices=devices,
  )
  assert list(outcomes) == ["softmax"]
  summary, predictions = outcomes["softmax"]
  np.testing.assert_array_equal(predictions, guesses)
  assert summary["num_examples"] == 5
  assert summary["loss"] == 1
  assert summary["top1"] == pytest.approx(3 / 5)
  assert summary["per_class"] == [0.5, 1.0, 0.0]
