"""Batches of images or of cached feature maps, as a config asks for them."""

from __future__ import annotations

from collections.abc import Sequence
import dataclasses
from typing import Any

import grain
import jax
import ml_collections
import numpy as np

from pnjax import data
from pnjax import runtime


@dataclasses.dataclass(frozen=True, eq=False)
class Inputs:
  """The examples of a split: images, or the cached feature maps of a frozen stage.

  Attributes:
    config: Run config.
    split: Images and their labels.
    devices: Devices that share a batch.
    feature_maps: Cached feature maps of the images; None to read the images.
  """

  config: ml_collections.ConfigDict
  split: data.Split
  devices: runtime.Devices
  feature_maps: Sequence[np.ndarray] | None = None

  def train_batches(self) -> grain.IterDataset:
    """Return endless batches of this host."""
    if self.feature_maps is None:
      return data.train_batches(
        self.split,
        seed=self.config.seed,
        augment=self.config.dataset.augment,
        **data.image_options(self.config.dataset),
        **self._batching(),
      )
    order = data.shuffled(len(self.split), self.config.seed)
    return data.batch(order.map(self._cached_example), **self._batching())

  def eval_batches(self) -> grain.IterDataset:
    """Return batches of this host that have every example once."""
    if self.feature_maps is None:
      return data.eval_batches(
        self.split,
        resize=self.config.dataset.resize,
        **data.image_options(self.config.dataset),
        **self._batching(),
      )
    blank = jax.tree.map(np.zeros_like, self._cached_example(0))
    examples = data.padded(
      len(self.split), self.config.train.batch_size, self._cached_example, blank
    )
    return data.batch(examples, **self._batching())

  def _cached_example(self, index: int) -> dict[str, Any]:
    assert self.feature_maps is not None
    return {
      "features": self.feature_maps[index],
      "label": np.int32(self.split.labels[index]),
    }

  def _batching(self) -> dict[str, Any]:
    return {
      "batch_size": self.config.train.batch_size,
      "num_threads": self.config.train.num_threads,
      "shard_index": self.devices.host,
      "shard_count": self.devices.num_hosts,
    }
