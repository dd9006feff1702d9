"""Images, labels and digests of datasets of other builders.

Labels and digests are read from the images once, and kept in the cache.
"""

from collections.abc import Sequence
from concurrent import futures
import dataclasses
import hashlib
import json
import logging
import os
import pathlib
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow_datasets as tfds
import tqdm

from pnjax import runtime
from pnjax.data import _stored
from pnjax.data._decode import decode

_LOGGER = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, eq=False)
class Examples(Sequence):
  """All images of a dataset, with the names that the items of ours have.

  Attributes:
    source: TFDS data source.
    image: Name of the feature that is the image.
    label: Name of the feature that is the label.
    file: Name of the feature that is the name of the file, if any.
  """

  source: Any
  image: str
  label: str
  file: str | None

  def __len__(self) -> int:
    return len(self.source)

  def __getitem__(self, index: int) -> dict[str, Any]:  # type: ignore[override]
    example = self.source[index]
    return {
      "image": example[self.image],
      "label": example[self.label],
      "file": example[self.file] if self.file else f"image {index}".encode(),
    }

  @property
  def dataset_info(self) -> tfds.core.DatasetInfo:
    """Description of the dataset."""
    return self.source.dataset_info


class Dataset(NamedTuple):
  """An open dataset.

  Attributes:
    name: Name that it was opened by.
    examples: All images, split by split.
    class_names: Names of the classes.
    splits: Positions of the images of each split.
  """

  name: str
  examples: Examples
  class_names: tuple[str, ...]
  splits: dict[str, range]

  def damaged(self, error: Exception) -> OSError:
    """Return the error for files that cannot be read."""
    return _stored.damaged(self.name, self.examples.dataset_info.data_dir, error)

  def labels_and_digests(self, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the label and the sha256 of some images.

    All images of the splits that these belong to are read and checked, unless that was
    done before.

    Raises:
      ValueError: if images of these splits are broken.
    """
    labels = np.full(len(self.examples), -1, np.int32)
    digests = np.full(len(self.examples), "", "U64")
    for split, positions in self.splits.items():
      rows = slice(positions.start, positions.stop)
      if np.any((indices >= positions.start) & (indices < positions.stop)):
        labels[rows], digests[rows] = _read_index(self, split)
    return labels[indices], digests[indices]


def _read_index(dataset: Dataset, split: str) -> tuple[np.ndarray, np.ndarray]:
  """Return the labels and digests of a split, from the cache if they are there."""
  path = _index_path(dataset, split)
  size = len(dataset.splits[split])
  try:
    with open(path, "rb") as file, np.load(file) as index:
      labels, digests = index["labels"], index["digests"]
    if (
      labels.shape == digests.shape == (size,)
      and labels.dtype == np.int32
      and digests.dtype.kind == "U"
    ):
      return labels, digests
  except OSError:
    pass  # It was never kept, or the cache cannot be read.
  except Exception as error:  # NumPy raises almost anything for damaged files.
    _LOGGER.warning("%s is damaged (%s), so it is made again.", path, error)
  labels, digests = _make_index(dataset, split)
  try:
    path.parent.mkdir(parents=True, exist_ok=True)
    with runtime.temporary_folder(path.parent) as folder:
      temporary = folder / path.name
      np.savez(temporary, labels=labels, digests=digests)
      temporary.replace(path)
  except OSError as error:
    reason = error.strerror or error
    _LOGGER.warning("%s cannot be kept (%s); it is made again next time.", path, reason)
  return labels, digests


def _index_path(dataset: Dataset, split: str) -> pathlib.Path:
  """Return where the index of a split is kept: it depends on the files of the split."""
  examples = dataset.examples
  paths = [pathlib.Path(p) for p in examples.dataset_info.splits[split].filepaths]
  try:
    stats = [(str(path.absolute()), path.stat()) for path in paths]
  except FileNotFoundError as error:
    raise dataset.damaged(error) from error
  key = [
    examples.image,
    examples.label,
    [(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats],
  ]
  digest = hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]
  return runtime.cache_folder() / "datasets" / f"{digest}.npz"


def _make_index(dataset: Dataset, split: str) -> tuple[np.ndarray, np.ndarray]:
  """Return the labels and digests of a split, none of whose images may be broken."""
  examples, positions = dataset.examples, dataset.splits[split]

  def inspect(position: int) -> tuple[int, str, str]:
    try:
      example = examples[position]
    except Exception as error:
      raise dataset.damaged(error) from error
    try:
      decode(example["image"])
    except ValueError as error:
      return -1, "", f"{example['file'].decode()}: {error}"
    return example["label"], hashlib.sha256(example["image"]).hexdigest(), ""

  with futures.ThreadPoolExecutor(os.cpu_count()) as executor:
    results = tqdm.tqdm(
      executor.map(inspect, positions),
      desc=f"checking {dataset.name}, {split}",
      total=len(positions),
      unit=" images",
      disable=None,  # Shows it in terminals only.
    )
    labels, digests, errors = zip(*results, strict=True) if positions else ((), (), ())
  broken = [error for error in errors if error]
  if broken:
    raise ValueError(
      f"{len(broken)} of {runtime.counted(len(positions), 'image')} of {dataset.name}, "
      f"{split}, cannot be decoded, expected none; the first is {broken[0]}"
    )
  return np.array(labels, np.int32), np.array(digests, "U64")
