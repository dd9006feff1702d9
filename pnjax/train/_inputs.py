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
    views: Cached feature maps of the images, for each view; None to read the images.
  """

  config: ml_collections.ConfigDict
  split: data.Split
  devices: runtime.Devices
  views: Sequence[Sequence[np.ndarray]] | None = None

  @property
  def num_views(self) -> int:
    """Number of views of each image that `eval_batches` knows."""
    return 1 if self.views is None else len(self.views)

  @property
  def labels(self) -> np.ndarray:
    """Labels of all examples: all images in their first view, in their second, ..."""
    return np.tile(self.split.labels, self.num_views)

  def train_batches(self) -> grain.IterDataset:
    """Return endless batches of this host; each epoch has one view of each image."""
    if self.views is None:
      return data.train_batches(
        self.split,
        seed=self.config.seed,
        augment=self.config.dataset.augment,
        **data.image_options(self.config.dataset),
        **self._batching(),
      )
    num_images, num_views = len(self.split), self.num_views

    def load(position: int, image: int) -> dict[str, Any]:
      # All views occur in every batch, and an image has another one in every epoch.
      view = (position // num_images + image) % num_views
      return self._cached_example(view * num_images + image)

    order = data.shuffled(num_images, self.config.seed)
    return data.batch(order.map_with_index(load), **self._batching())

  def eval_batches(self, rows: np.ndarray | None = None) -> grain.IterDataset:
    """Return batches of this host that have some examples once, in order.

    Args:
      rows: Positions of the examples among `labels`; all images in their first view
        if None.
    """
    rows = np.arange(len(self.split)) if rows is None else rows
    if self.views is None:
      return data.eval_batches(
        self.split.subset(rows),
        resize=self.config.dataset.resize,
        **data.image_options(self.config.dataset),
        **self._batching(),
      )
    blank = jax.tree.map(np.zeros_like, self._cached_example(0))
    examples = data.padded(
      len(rows),
      self.config.train.batch_size,
      lambda index: self._cached_example(rows[index]),
      blank,
    )
    return data.batch(examples, **self._batching())

  def _cached_example(self, row: int) -> dict[str, Any]:
    assert self.views is not None
    view, image = divmod(int(row), len(self.split))
    return {
      "features": self.views[view][image],
      "label": np.int32(self.split.labels[image]),
    }

  def _batching(self) -> dict[str, Any]:
    return {
      "batch_size": self.config.train.batch_size,
      "num_threads": self.config.train.num_threads,
      "shard_index": self.devices.host,
      "shard_count": self.devices.num_hosts,
    }
