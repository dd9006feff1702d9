"""Splits of prepared datasets, as sequences of encoded pictures."""

from collections.abc import Sequence
import dataclasses
import functools
import hashlib
import json
import os

import numpy as np
import tensorflow_datasets as tfds

from pnjax.data import _prepare


@dataclasses.dataclass(frozen=True, eq=False)
class Split(Sequence):
  """Some pictures of a dataset, in an order.

  An item is a dict of `image`, the encoded picture (`decode` takes it), `label` and
  `file`, its path in the archive.

  Attributes:
    name: of the dataset.
    split: as it was asked for.
    class_names: in the order of the labels.
    labels: of all pictures, int32.
    digests: sha256 of all pictures.
    source: all pictures of the dataset.
    indices: of this split's pictures in `source`.
  """

  name: str
  split: str
  class_names: tuple[str, ...]
  labels: np.ndarray
  digests: np.ndarray
  source: Sequence
  indices: np.ndarray

  def __repr__(self) -> str:
    return (
      f"Split({self.name!r}, {self.split!r}: {len(self)} pictures, "
      f"{len(self.class_names)} classes)"
    )

  def __len__(self) -> int:
    return len(self.indices)

  def __getitem__(self, index: int) -> dict[str, bytes | int | str]:
    if not -len(self) <= index < len(self):
      raise IndexError(f"`index` is {index}, but there are {len(self)} pictures.")
    try:
      example = self.source[int(self.indices[index])]
    except RuntimeError as error:
      raise _damaged(self.name, self.source.dataset_info.data_dir, error) from error
    return {
      "image": example["image"],
      "label": int(example["label"]),
      "file": example["file"].decode(),
    }

  @functools.cached_property
  def fingerprint(self) -> str:
    """Changes with the pictures, their order, their labels and the class names."""
    description = [self.class_names, self.labels.tolist(), self.digests.tolist()]
    return hashlib.sha256(json.dumps(description).encode()).hexdigest()

  def subset(self, indices: Sequence[int] | np.ndarray) -> "Split":
    """Returns the pictures at these positions, in this order."""
    # Of none at all NumPy would make floats.
    indices = np.asarray(indices, None if len(indices) else np.int64)
    return dataclasses.replace(
      self,
      labels=self.labels[indices],
      digests=self.digests[indices],
      indices=self.indices[indices],
    )


def open_split(
  name: str, split: str, data_dir: str | os.PathLike | None = None
) -> Split:
  """Opens a split of a prepared dataset.

  Args:
    name: one of `DATASETS`. `textures` is prepared here if it was not before.
    split: name of a split, or what TFDS makes of names: `"train+validation"`,
      `"train[:80%]"`. `"all"` is every picture once. The order is that of the
      archive's lists, mostly class by class, so that a slice may miss classes.
    data_dir: as in `prepare`.
  """
  _prepare.check_name(name)
  folder = _prepare.prepared_folder(name, data_dir)
  if not folder.exists() and name == "textures":
    _prepare.prepare(name, data_dir=data_dir)
  if not folder.exists():
    command = f"python -m experiments.prepare {name} --source=DIR"
    command += f" --data_dir={data_dir}" if data_dir else ""
    raise FileNotFoundError(f"{folder} does not exist; prepare it with `{command}`.")
  try:
    builder = tfds.builder_from_directory(folder)
    metadata = builder.info.metadata
    splits, stored = metadata["splits"], "+".join(metadata["stored"])
  except (KeyError, json.JSONDecodeError) as error:
    raise _damaged(name, folder, error) from error
  indices = _indices(split, splits, len(metadata["labels"]))
  source = builder.as_data_source(
    stored, decoders={"image": tfds.decode.SkipDecoding()}
  )
  return Split(
    name=name,
    split=split,
    class_names=tuple(builder.info.features["label"].names),
    labels=np.array(metadata["labels"], np.int32)[indices],
    digests=np.array(metadata["digests"])[indices],
    source=source,
    indices=indices,
  )


def _damaged(name: str, folder: str | os.PathLike, error: Exception) -> OSError:
  return OSError(f"{folder} is damaged ({error}). Remove it, and prepare {name} again.")


def _indices(split: str, splits: dict[str, list[int]], total: int) -> np.ndarray:
  if split == "all":
    return np.arange(total)
  infos = {
    name: tfds.core.SplitInfo(name=name, shard_lengths=[len(indices)], num_bytes=0)
    for name, indices in splits.items()
  }
  try:
    instructions = tfds.core.ReadInstruction.from_spec(split).to_absolute(infos)
  except (ValueError, NotImplementedError) as error:
    raise ValueError(
      f"`split` is {split!r}, expected all, one of {', '.join(splits)}, or sums and "
      "slices of these in TFDS's syntax, such as 'a+b' or 'a[:80%]'."
    ) from error
  parts = [splits[i.splitname][i.from_ : i.to] for i in instructions]
  return np.concatenate([np.asarray(part, np.int64) for part in parts])
