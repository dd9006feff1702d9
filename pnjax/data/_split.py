"""Splits of prepared datasets, as sequences of encoded images."""

from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import functools
import hashlib
import json
import os
import re
from typing import Any

import ml_collections
import numpy as np
import tensorflow_datasets as tfds

from pnjax import runtime
from pnjax.data import _prepare
from pnjax.data import _random_splits
from pnjax.data import _stored
from pnjax.data import _tfds


class _UnknownSplitError(ValueError):
  """The dataset has no such split."""


@dataclasses.dataclass(frozen=True, eq=False)
class Split(Sequence):
  """A sequence of images of a dataset.

  An item is a dict of `image`, the encoded image (see `decode`), `label`, and `file`,
  the path in the archive.

  Attributes:
    name: Name of the dataset.
    split: Name of the split, as given to `open_split`.
    class_names: Names of the classes, in the order of the labels.
    labels: Label of each image, int32.
    digests: sha256 of each image.
    source: TFDS data source with all images of the dataset.
    indices: Position of each image in `source`.
  """

  name: str
  split: str
  class_names: tuple[str, ...]
  labels: np.ndarray
  digests: np.ndarray
  source: Any
  indices: np.ndarray

  def __repr__(self) -> str:
    return (
      f"Split({self.name!r}, {self.split!r}: {runtime.counted(len(self), 'image')}, "
      f"{runtime.counted(len(self.class_names), 'class', 'classes')})"
    )

  def __len__(self) -> int:
    return len(self.indices)

  # Slices are not supported; see `subset`.
  def __getitem__(self, index: int) -> dict[str, Any]:  # type: ignore[override]
    if not -len(self) <= index < len(self):
      count = runtime.counted(len(self), "image")
      raise IndexError(f"`index` is {index}, but the split has {count}.")
    try:
      example = self.source[int(self.indices[index])]
      return {
        "image": example["image"],
        "label": int(example["label"]),
        "file": example["file"].decode(),
      }
    except Exception as error:  # Damaged files make TFDS raise almost anything.
      raise self.damaged(error) from error

  def damaged(self, error: Exception | str) -> OSError:
    """Return the error for images that cannot be read, which says what to do.

    Args:
      error: What is wrong.
    """
    return _stored.damaged(self.name, self.source.dataset_info.data_dir, error)

  @functools.cached_property
  def fingerprint(self) -> str:
    """Digest of the images, their order, their labels, and the class names."""
    description = [self.class_names, self.labels.tolist(), self.digests.tolist()]
    return hashlib.sha256(json.dumps(description).encode()).hexdigest()

  def subset(self, indices: Sequence[int] | np.ndarray) -> "Split":
    """Return the images at the given positions, in the given order."""
    # NumPy turns an empty list into floats.
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
  """Open a split of a prepared dataset.

  Args:
    name: One of `DATASETS`, of which `textures` is prepared if needed, or a dataset
      that TFDS has prepared as array_record, as TFDS writes it: `caltech101`,
      `NAME/CONFIG:1.0.0`. Its images are read and checked when they are first opened.
    split: Name of a split, or an expression in TFDS's syntax, such as
      `"train+validation"` or `"train[:80%]"`. `"all"` is each image once. Images are
      in the order of the archive's lists, mostly class by class, so a slice may lack
      classes.
    data_dir: TFDS's folder of datasets; see `prepare`.
  """
  if name not in _prepare.DATASETS:
    return _open_other(name, split, data_dir)
  folder = _prepare.prepared_folder(name, data_dir)
  if not folder.exists() and name == "textures":
    _prepare.prepare(name, data_dir=data_dir)
  if not folder.exists():
    command = f"python -m experiments.prepare {name} --source=DIR"
    command += f" --data_dir={data_dir}" if data_dir else ""
    raise FileNotFoundError(f"{folder} does not exist; prepare it with `{command}`.")
  stored = _stored.open_stored(name, folder)
  indices = _indices(split, stored.splits, len(stored.labels))
  return Split(
    name=name,
    split=split,
    class_names=stored.class_names,
    labels=stored.labels[indices],
    digests=stored.digests[indices],
    source=stored.source,
    indices=indices,
  )


def _open_other(name: str, split: str, data_dir: str | os.PathLike | None) -> Split:
  """Open a split of a dataset that another builder has prepared."""
  root = _prepare.data_root(data_dir)
  folder = _tfds.find(name, root)
  dataset = _tfds.open_dataset(name, folder)
  indices = _indices(split, dataset.splits, len(dataset.examples))
  labels, digests = dataset.labels_and_digests(indices)
  opened = Split(
    name=name,
    split=split,
    class_names=dataset.class_names,
    labels=labels,
    digests=digests,
    source=dataset.examples,
    indices=indices,
  )
  if split != "all":
    _check_labels(opened)
  return opened


def _check_labels(split: Split) -> None:
  """Raise ValueError if images have no label, as those of some test splits."""
  count = int(np.sum(split.labels < 0))
  if count:
    of_all = f"of {len(split)} images of {split.name}, {split.split},"
    raise ValueError(
      f"{runtime.counted(count, f'{of_all} has', f'{of_all} have')} no label, expected "
      "one each; choose another split."
    )


def _indices(
  split: str, splits: Mapping[str, Sequence[int] | np.ndarray], total: int
) -> np.ndarray:
  if split == "all":
    return np.arange(total)
  infos = {
    name: tfds.core.SplitInfo(name=name, shard_lengths=[len(indices)], num_bytes=0)
    for name, indices in splits.items()
  }
  try:
    instructions = tfds.core.ReadInstruction.from_spec(split).to_absolute(infos)
  except (ValueError, NotImplementedError) as error:
    raise _UnknownSplitError(
      f"`split` is {split!r}, expected all, one of {', '.join(splits)}, or sums and "
      "slices of these in TFDS's syntax, such as 'a+b' or 'a[:80%]'."
    ) from error
  parts = [splits[i.splitname][i.from_ : i.to] for i in instructions]
  return np.concatenate([np.asarray(part, np.int64) for part in parts])


def open_splits(config: ml_collections.ConfigDict) -> tuple[Split, Split]:
  """Open the splits to train on and to evaluate on.

  Args:
    config: The group `dataset` of a run config.
  """
  train = open_split(config.name, config.split, config.data_dir)
  if config.fold is None:
    test = _open_test_split(config)
  else:
    train, test = _divide(train, config.fold)
  _check_labels(train)
  _check_labels(test)
  num_shared = np.intersect1d(train.indices, test.indices).size
  if num_shared:
    one, many = f"image of {train.split} is", f"images of {train.split} are"
    raise ValueError(
      f"{runtime.counted(num_shared, one, many)} also in {test.split}, which is "
      "evaluated on; set dataset.test_split to one without them."
    )
  num_classes = len(train.class_names)
  if config.num_classes not in (None, num_classes):
    raise ValueError(
      f"dataset.num_classes is {config.num_classes}, but {config.name} has "
      f"{num_classes} classes; leave it out, or set --config.dataset.num_classes="
      f"{num_classes}."
    )
  return train, test


def _divide(split: Split, fold: str) -> tuple[Split, Split]:
  """Return all but one fold of a split, and that fold.

  Args:
    split: The split.
    fold: Number of the fold, from 1, and of all folds, such as "2/5".
  """
  parts = re.fullmatch(r"(\d+)/(\d+)", fold)
  number, count = (int(part) for part in parts.groups()) if parts else (0, 0)
  if not (1 <= number <= count and 2 <= count <= len(split)):
    raise ValueError(
      f"dataset.fold is {fold!r}, expected a fold and their number, such as '1/5', of "
      f"at most {len(split)} images."
    )
  folds = _random_splits.stratified_folds(split.labels, count, seed=0)
  rest, own = (
    dataclasses.replace(split.subset(np.flatnonzero(members)), split=name)
    for members, name in (
      (folds != number - 1, f"{split.split} without fold {fold}"),
      (folds == number - 1, f"fold {fold} of {split.split}"),
    )
  )
  return rest, own


def _open_test_split(config: ml_collections.ConfigDict) -> Split:
  """Open the first split to evaluate on that the dataset has."""
  if config.test_split:
    return open_split(config.name, config.test_split, config.data_dir)
  counterparts = _counterparts(config.split)
  for name in counterparts:
    with contextlib.suppress(_UnknownSplitError):
      return open_split(config.name, name, config.data_dir)
  raise ValueError(
    f"{config.name} has no images to evaluate on (no {' or '.join(counterparts)} "
    f"beside {config.split}): add a folder test or validation and prepare it again, "
    "set dataset.test_split, or hold out a part with --config.dataset.fold=1/5."
  )


def evaluation_split(config: ml_collections.ConfigDict) -> str:
  """Return the name of the split to evaluate on, as far as the config decides it.

  Where that is `test`, and the dataset has none, `open_splits` opens `validation`.

  Args:
    config: The group `dataset` of a run config.
  """
  if config.fold:
    return f"fold {config.fold} of {config.split}"
  if config.test_split:
    return config.test_split
  return _counterparts(config.split)[0]


def _counterparts(split: str) -> list[str]:
  """Return the splits that may be evaluated on after training on one, best first."""
  if split == "train_80":
    return ["test_20"]
  repeated = re.fullmatch(r"((?:half|fold)_\d+)_train", split)
  if repeated:
    return [f"{repeated[1]}_test"]
  is_seen = split == "all" or "validation" in re.findall(r"\w+", split)
  return ["test"] if is_seen else ["test", "validation"]
