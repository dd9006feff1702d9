"""Batches of prepared images."""

from collections.abc import Callable
from collections.abc import Iterable
import math
import os
from typing import Any

import grain
import ml_collections
import numpy as np

from pnjax.data import _transforms
from pnjax.data._decode import decode_prepared
from pnjax.data._split import Split

_AUGMENTS = ("crop", "flip", "none")
_RESIZES = {"squash": _transforms.squash, "center": _transforms.center}


def train_batches(
  split: Split,
  *,
  batch_size: int,
  image_size: int,
  seed: int,
  augment: str = "crop",
  num_crops: int = 1,
  resize_side: int = 256,
  shard_index: int = 0,
  shard_count: int = 1,
  num_threads: int | None = None,
) -> grain.IterDataset:
  """Return endless batches of a split, shuffled in each epoch.

  Batch k depends on `seed` and k only, not on the number of threads or where the
  iterator started. Together, the shards of a batch hold the same images for any number
  of shards. The state of the iterator is a position, so it resumes instantly.

  Args:
    split: Images to read.
    batch_size: Number of images in a batch, summed over all shards.
    image_size: Side S of the images in a batch, in pixels.
    seed: Seed of the order and of the augmentation.
    augment: `"crop"` resizes a random part of the image, `"flip"` the whole image, and
      both mirror every other image; `"none"` only resizes, as `eval_batches` does.
      Twelve crops are never augmented.
    num_crops: 1, or 12: four corners, the centre and the whole image, then their
      mirror images.
    resize_side: Shorter side of the image that the 12 crops are cut from.
    shard_index: Index of the shard to return, usually `jax.process_index()`.
    shard_count: Number of shards, usually `jax.process_count()`.
    num_threads: Number of decoding threads; the number of cores if None.

  Returns:
    Batches of b = `batch_size // shard_count`: `image`, uint8 `[b, S, S, 3]` (or
    `[b, 12, S, S, 3]`), and `label`, int32 `[b]`.
  """
  _check_augment(augment)
  transform = eval_transform(image_size, "squash", num_crops, resize_side)

  def load(index, rng):
    image, label = _read(split, index)
    if augment == "crop" and num_crops == 1:
      image = _transforms.squash(_transforms.random_part(image, rng), image_size)
    else:
      image = transform(image)
    if augment != "none" and num_crops == 1:
      image = _transforms.random_flip(image, rng)
    return {"image": image, "label": label}

  indices = shuffled(len(split), seed)
  return batch(
    indices.random_map(load), batch_size, shard_index, shard_count, num_threads
  )


def eval_batches(
  split: Split,
  *,
  image_size: int,
  resize: str = "squash",
  num_crops: int = 1,
  resize_side: int = 256,
  batch_size: int,
  view: int = 0,
  seed: int = 0,
  shard_index: int = 0,
  shard_count: int = 1,
  num_threads: int | None = None,
) -> grain.IterDataset:
  """Return batches with each image of a split once, in order.

  All batches have the same shape, and all shards the same number of batches: black
  images whose `mask` is False fill up the last ones.

  Args:
    split: Images to read.
    batch_size: Number of images in a batch, summed over all shards.
    image_size: Side S of the images in a batch, in pixels.
    resize: `"squash"` resizes to S × S, ignoring the aspect ratio; `"center"` resizes
      the shorter side to S and crops the centre.
    num_crops: 1 or 12; see `train_batches`.
    resize_side: Shorter side of the image that the 12 crops are cut from.
    view: 0 for whole images. Other numbers stand for random parts of them, mirrored at
      random; the number, `seed` and the image itself decide which.
    seed: Seed of the views.
    shard_index: Index of the shard to return, usually `jax.process_index()`.
    shard_count: Number of shards, usually `jax.process_count()`.
    num_threads: Number of decoding threads; the number of cores if None.

  Returns:
    Batches of b = `batch_size // shard_count`: `image` and `label` as in
    `train_batches`, `mask`, bool `[b]`, and `index`, int32 `[b]`: the position in
    the split, or -1 where the mask is False.
  """
  transform = eval_transform(image_size, resize, num_crops, resize_side)
  crops = () if num_crops == 1 else (num_crops,)
  shape = (*crops, image_size, image_size, 3)

  def load(index):
    image, label = _read(split, index)
    if view:
      rng = np.random.default_rng([seed, view, int(split.digests[index][:16], 16)])
      image = _transforms.random_flip(_transforms.random_part(image, rng), rng)
    return {"image": transform(image), "label": label}

  blank = {"image": np.zeros(shape, np.uint8), "label": np.int32(0)}
  examples = padded(len(split), batch_size, load, blank)
  return batch(examples, batch_size, shard_index, shard_count, num_threads)


def shuffled(count: int, seed: int) -> grain.MapDataset:
  """Return the integers below `count`, shuffled in each of endless epochs."""
  return grain.MapDataset.range(count).seed(seed).shuffle().repeat()


def padded(
  count: int,
  batch_size: int,
  load: Callable[[int], dict[str, Any]],
  blank: dict[str, Any],
) -> grain.MapDataset:
  """Return `count` examples, padded to full batches.

  Args:
    count: Number of examples.
    batch_size: Number of examples in a batch.
    load: Function from an index below `count` to an example.
    blank: Example to pad with.

  Returns:
    Examples with a `mask`, False for padding, and an `index`, -1 for padding.
  """

  def load_or_blank(index):
    inside = index < count
    return {
      **(load(index) if inside else blank),
      "mask": np.bool_(inside),
      "index": np.int32(index if inside else -1),
    }

  num_batches = math.ceil(count / batch_size)
  return grain.MapDataset.range(num_batches * batch_size).map(load_or_blank)


def eval_transform(
  image_size: int, resize: str = "squash", num_crops: int = 1, resize_side: int = 256
) -> Callable[[np.ndarray], np.ndarray]:
  """Return the function that `eval_batches` applies to a decoded image.

  Args:
    image_size: Side of the result, in pixels.
    resize: `"squash"` or `"center"`; see `eval_batches`.
    num_crops: 1 or 12; see `train_batches`.
    resize_side: Shorter side of the image that the 12 crops are cut from.
  """
  if image_size < 1:
    raise ValueError(f"`image_size` is {image_size}, expected 1 or more.")
  _check_choice("num_crops", num_crops, (1, 12))
  _check_choice("resize", resize, _RESIZES)
  if num_crops == 1:
    return lambda image: _RESIZES[resize](image, image_size)
  if resize_side < image_size:
    raise ValueError(
      f"`resize_side` is {resize_side}, expected at least `image_size`, {image_size}."
    )
  return lambda image: _transforms.twelve_crops(image, image_size, resize_side)


def batch(
  examples: grain.MapDataset,
  batch_size: int,
  shard_index: int = 0,
  shard_count: int = 1,
  num_threads: int | None = None,
) -> grain.IterDataset:
  """Return one shard of each batch of examples, prefetched by threads.

  Args:
    examples: Dataset of all examples, in order.
    batch_size: Number of examples in a batch, summed over all shards.
    shard_index: Index of the shard to return.
    shard_count: Number of shards.
    num_threads: Number of threads; the number of cores if None.
  """
  if batch_size % shard_count:
    raise ValueError(
      f"`batch_size` is {batch_size}, expected a multiple of `shard_count`, "
      f"{shard_count}."
    )
  if not 0 <= shard_index < shard_count:
    raise ValueError(
      f"`shard_index` is {shard_index}, expected from 0 to {shard_count - 1}."
    )
  if len(examples) == 0:
    raise ValueError("the split has no images, expected some.")
  if num_threads is None:
    num_threads = os.cpu_count() or 1
  size = batch_size // shard_count
  # Loads the next batch while one is in use.
  options = grain.ReadOptions(num_threads, max(2 * size, num_threads))
  return examples[shard_index::shard_count].to_iter_dataset(options).batch(size)


def _read(split: Split, index: int) -> tuple[np.ndarray, np.int32]:
  """Return a decoded image and its label."""
  example = split[index]
  try:
    return decode_prepared(example["image"]), np.int32(example["label"])
  except ValueError as error:  # It was intact when it was prepared.
    raise split.damaged(f"{example['file']}: {error}") from error


def _check_augment(augment: str) -> None:
  if augment == "resize":
    raise ValueError("`augment` is 'resize', expected 'flip', its new name.")
  _check_choice("augment", augment, _AUGMENTS)


def _check_choice(name: str, value: object, choices: Iterable[object]) -> None:
  if value not in choices:
    expected = ", ".join(map(repr, choices))
    raise ValueError(f"`{name}` is {value!r}, expected one of {expected}.")


def image_options(config: ml_collections.ConfigDict) -> dict[str, int]:
  """Return the arguments of `train_batches` and `eval_batches` that size images.

  Args:
    config: The group `dataset` of a run config.
  """
  return {name: config[name] for name in ("image_size", "num_crops", "resize_side")}
