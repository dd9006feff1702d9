"""Splits and batches of a config."""

from collections.abc import Sequence
import dataclasses
import re

import grain
import jax
import ml_collections
import numpy as np

from pnjax import data
from pnjax.train.devices import Devices


def open_splits(config: ml_collections.ConfigDict) -> tuple[data.Split, data.Split]:
  """Returns what is trained on and what is evaluated on, from `config.dataset`."""
  train = data.open_split(config.name, config.split, config.data_dir)
  test = _open_test(config)
  shared = np.intersect1d(train.indices, test.indices).size
  if shared:
    raise ValueError(
      f"{shared} pictures of {train.split} are in {test.split}, too, which is to be "
      "evaluated on; set dataset.test_split to one without them."
    )
  num_classes = len(train.class_names)
  if config.num_classes not in (None, num_classes):
    raise ValueError(
      f"dataset.num_classes is {config.num_classes}, but {config.name} has "
      f"{num_classes} classes; leave it out, or --config.dataset.num_classes="
      f"{num_classes}."
    )
  return train, test


def _open_test(config: ml_collections.ConfigDict) -> data.Split:
  name = config.test_split or counterpart(config.split)
  try:
    return data.open_split(config.name, name, config.data_dir)
  except ValueError as error:
    if config.test_split:
      raise
    raise ValueError(
      f"dataset.test_split is None, and what belongs to {config.split} is not known: "
      f"{error}"
    ) from error


def open_pairs(
  config: ml_collections.ConfigDict, splits: Sequence[str]
) -> list[tuple[data.Split, data.Split]]:
  """Returns the same for each of several splits to train on."""
  return [
    open_splits(ml_collections.ConfigDict({**config.to_dict(), "split": split}))
    for split in splits
  ]


def fingerprints(train: data.Split, test: data.Split) -> dict[str, str]:
  """Returns what changes with the pictures of either split."""
  return {"train": train.fingerprint, "test": test.fingerprint}


def counterpart(split: str) -> str:
  """Returns the split to evaluate on that belongs to one to train on."""
  if split == "train_80":
    return "test_20"
  repeated = re.fullmatch(r"((?:half|fold)_\d+)_train", split)
  return f"{repeated[1]}_test" if repeated else "test"


def train_batches(
  config: ml_collections.ConfigDict, split: data.Split, devices: Devices
) -> grain.IterDataset:
  """Returns batches without end, of this host."""
  return data.train_batches(
    split,
    seed=config.seed,
    augment=config.dataset.augment,
    **picture_fields(config),
    **_shares(config, devices),
  )


def eval_batches(
  config: ml_collections.ConfigDict, split: data.Split, devices: Devices
) -> grain.IterDataset:
  """Returns batches that hold every picture once, of this host."""
  return data.eval_batches(
    split,
    resize=config.dataset.resize,
    **picture_fields(config),
    **_shares(config, devices),
  )


def cached_train_batches(
  config: ml_collections.ConfigDict, cached: "Cached", devices: Devices
) -> grain.IterDataset:
  """Returns batches of cached maps without end, of this host."""
  order = data.shuffled(len(cached.labels), config.seed)
  return data.batch(order.map(cached.load), **_shares(config, devices))


def cached_eval_batches(
  config: ml_collections.ConfigDict, cached: "Cached", devices: Devices
) -> grain.IterDataset:
  """Returns batches that hold every cached map once, of this host."""
  blank = jax.tree.map(np.zeros_like, cached.load(0))
  examples = data.padded(
    len(cached.labels), config.train.batch_size, cached.load, blank
  )
  return data.batch(examples, **_shares(config, devices))


@dataclasses.dataclass(frozen=True, eq=False)
class Cached:
  """A split whose maps are cached.

  Attributes:
    maps: of all pictures.
    labels: of all pictures.
  """

  maps: Sequence[np.ndarray]
  labels: np.ndarray

  def load(self, index: int) -> dict[str, np.ndarray]:
    """Returns an example."""
    return {"features": self.maps[index], "label": np.int32(self.labels[index])}


def all_at_once(config: ml_collections.ConfigDict, split: data.Split) -> np.ndarray:
  """Returns the pictures of a small split as the network gets them."""
  (batch,) = data.eval_batches(
    split, batch_size=len(split), resize=config.dataset.resize, **picture_fields(config)
  )
  return batch["image"]


def picture_fields(config: ml_collections.ConfigDict) -> dict[str, int]:
  """Returns what `pnjax.data` has to know of the pictures that the network gets."""
  dataset = config.dataset
  return {
    "image_size": dataset.image_size,
    "num_crops": dataset.num_crops,
    "crop_side": dataset.crop_side,
  }


def _shares(config, devices):
  return {
    "batch_size": config.train.batch_size,
    "num_threads": config.train.num_threads,
    "shard_index": devices.host,
    "shard_count": devices.num_hosts,
  }
