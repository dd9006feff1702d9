"""Prepared pictures into batches."""

from collections.abc import Callable
from collections.abc import Iterable
import math
import os

import grain
import numpy as np

from pnjax.data import _transforms
from pnjax.data._decode import decode_prepared
from pnjax.data._split import Split

_AUGMENTS = ("crop", "resize", "none")
_RESIZES = {"squash": _transforms.squash, "center": _transforms.center}


def train_batches(
  split: Split,
  *,
  batch_size: int,
  image_size: int,
  seed: int,
  augment: str = "crop",
  num_crops: int = 1,
  crop_side: int = 256,
  shard_index: int = 0,
  shard_count: int = 1,
  num_threads: int | None = None,
) -> grain.IterDataset:
  """Returns endless batches of a split, shuffled anew in each epoch.

  Batch k depends on `seed` and k alone: not on threads, nor on where one started.
  The shards' parts of a batch are together the same pictures for any number of
  shards. The iterator's state is a position, so that it resumes at once.

  Args:
    split: the pictures.
    batch_size: of all shards together.
    image_size: side S of the pictures in a batch.
    seed: of the order and of the augmentation.
    augment: `"crop"` resizes a random part of the picture, `"resize"` all of it, and
      both mirror every other picture; `"none"` resizes only, as `eval_batches` does.
      Twelve crops are always the same.
    num_crops: 1, or 12: four corners, the centre and all of the picture, and then
      their mirror images.
    crop_side: shorter side of the picture that five of the crops are cut from.
    shard_index: which part of each batch to yield, usually `jax.process_index()`.
    shard_count: number of parts, usually `jax.process_count()`.
    num_threads: that decode; as many as there are cores if None.

  Returns:
    Batches of b = `batch_size // shard_count`: `image`, uint8 `[b, S, S, 3]` (or
    `[b, 12, S, S, 3]`), and `label`, int32 `[b]`.
  """
  _check_choice("augment", augment, _AUGMENTS)
  transform = eval_transform(image_size, "squash", num_crops, crop_side)

  def load(index, rng):
    example = split[index]
    image = decode_prepared(example["image"])
    if augment == "crop" and num_crops == 1:
      image = _transforms.random_crop(image, image_size, rng)
    else:
      image = transform(image)
    if augment != "none" and num_crops == 1:
      image = _transforms.random_flip(image, rng)
    return {"image": image, "label": np.int32(example["label"])}

  indices = shuffled(len(split), seed)
  return batch(
    indices.random_map(load), batch_size, shard_index, shard_count, num_threads
  )


def eval_batches(
  split: Split,
  *,
  batch_size: int,
  image_size: int,
  resize: str = "squash",
  num_crops: int = 1,
  crop_side: int = 256,
  shard_index: int = 0,
  shard_count: int = 1,
  num_threads: int | None = None,
) -> grain.IterDataset:
  """Returns all pictures of a split once, in order.

  All batches have one shape, and all shards equally many; what is missing at the end
  is black pictures whose `mask` is False.

  Args:
    split: the pictures.
    batch_size: of all shards together.
    image_size: side S of the pictures in a batch.
    resize: `"squash"` resizes to S × S whatever the aspect, `"center"` resizes the
      shorter side to S and cuts the centre out.
    num_crops: 1, or 12, see `train_batches`.
    crop_side: see `train_batches`.
    shard_index: which part of each batch to yield, usually `jax.process_index()`.
    shard_count: number of parts, usually `jax.process_count()`.
    num_threads: that decode; as many as there are cores if None.

  Returns:
    Batches of b = `batch_size // shard_count`: `image` and `label` as in
    `train_batches`, `mask`, bool `[b]`, and `index`, int32 `[b]`: the position in
    the split, or -1.
  """
  transform = eval_transform(image_size, resize, num_crops, crop_side)
  crops = () if num_crops == 1 else (num_crops,)
  shape = (*crops, image_size, image_size, 3)

  def load(index):
    example = split[index]
    image = transform(decode_prepared(example["image"]))
    return {"image": image, "label": np.int32(example["label"])}

  blank = {"image": np.zeros(shape, np.uint8), "label": np.int32(0)}
  pictures = padded(len(split), batch_size, load, blank)
  return batch(pictures, batch_size, shard_index, shard_count, num_threads)


def shuffled(count: int, seed: int) -> grain.MapDataset:
  """Returns the numbers below `count`, shuffled anew in each of endless epochs."""
  return grain.MapDataset.range(count).seed(seed).shuffle().repeat()


def padded(
  count: int,
  batch_size: int,
  load: Callable[[int], dict[str, np.ndarray]],
  blank: dict[str, np.ndarray],
) -> grain.MapDataset:
  """Returns what `load` makes of the numbers below `count`, and whole batches of it.

  Each has a `mask`, False for the blanks that fill the last batch, and an `index`, -1
  for those.
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
  image_size: int, resize: str = "squash", num_crops: int = 1, crop_side: int = 256
) -> Callable[[np.ndarray], np.ndarray]:
  """Returns the function from a picture to what `eval_batches` has of it.

  Args:
    image_size: see `eval_batches`, as for the others.
    resize: `"squash"` or `"center"`.
    num_crops: 1 or 12.
    crop_side: shorter side of the picture that crops are cut from.
  """
  if image_size < 1:
    raise ValueError(f"`image_size` is {image_size}, expected 1 or more.")
  _check_choice("num_crops", num_crops, (1, 12))
  _check_choice("resize", resize, _RESIZES)
  if num_crops == 1:
    return lambda image: _RESIZES[resize](image, image_size)
  if crop_side < image_size:
    raise ValueError(
      f"`crop_side` is {crop_side}, expected at least `image_size`, {image_size}."
    )
  return lambda image: _transforms.twelve_crops(image, image_size, crop_side)


def batch(
  pictures: grain.MapDataset,
  batch_size: int,
  shard_index: int = 0,
  shard_count: int = 1,
  num_threads: int | None = None,
) -> grain.IterDataset:
  """Returns this shard's part of each batch, read ahead by some threads."""
  if batch_size % shard_count:
    raise ValueError(
      f"`batch_size` is {batch_size}, expected a multiple of `shard_count`, "
      f"{shard_count}."
    )
  if not 0 <= shard_index < shard_count:
    raise ValueError(
      f"`shard_index` is {shard_index}, expected from 0 to {shard_count - 1}."
    )
  if len(pictures) == 0:
    raise ValueError("the split has no pictures, expected some.")
  num_threads = os.cpu_count() if num_threads is None else num_threads
  size = batch_size // shard_count
  # While one batch is used, the next is made.
  options = grain.ReadOptions(num_threads, max(2 * size, num_threads))
  return pictures[shard_index::shard_count].to_iter_dataset(options).batch(size)


def _check_choice(name: str, value: object, choices: Iterable[object]) -> None:
  if value not in choices:
    expected = ", ".join(map(repr, choices))
    raise ValueError(f"`{name}` is {value!r}, expected one of {expected}.")
