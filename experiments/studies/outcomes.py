"""Outcomes: the accuracy of a classifier on a split, and which images were right."""

from collections.abc import Mapping
from typing import Any

import numpy as np

# The accuracy of a classifier on a split, as in JSON.
Outcome = dict[str, Any]


def make_outcome(
  metrics: Mapping[str, Any], labels: np.ndarray, predictions: np.ndarray
) -> Outcome:
  """Return the outcome of a classifier.

  Args:
    metrics: Metrics as in `train.summarize`.
    labels: Labels of the images.
    predictions: Predicted classes of the images.
  """
  return {
    "top1": metrics["top1"],
    "mean_per_class": metrics["mean_per_class"],
    "num_examples": len(labels),
    "right": pack(labels == predictions),
  }


def correct(outcome: Outcome) -> np.ndarray:
  """Return whether each image was classified correctly."""
  return unpack(outcome["right"], outcome["num_examples"])


def pack(right: np.ndarray) -> str:
  """Return booleans as hexadecimal digits, of which each has four.

  >>> pack(np.array([True, False, False, False, True]))
  '88'
  """
  return np.packbits(right).tobytes().hex()


def unpack(text: str, count: int) -> np.ndarray:
  """Return the booleans that `pack` wrote.

  Args:
    text: Hexadecimal digits.
    count: Number of booleans.
  """
  packed = np.frombuffer(bytes.fromhex(text), np.uint8)
  if len(packed) != -(-count // 8):
    raise ValueError(f"{len(text)} hexadecimal digits do not stand for {count} images")
  return np.unpackbits(packed, count=count).astype(bool)
