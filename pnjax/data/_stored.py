"""Prepared datasets as they are on disk, checked when they are opened."""

from collections.abc import Mapping
from collections.abc import Sequence
from concurrent import futures
import functools
import hashlib
import itertools
import json
import os
import pathlib
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow_datasets as tfds
import tqdm

from pnjax import runtime

_OTHER_RECORDS = "its records are not those that its metadata describe"


class Stored(NamedTuple):
  """An open dataset.

  Attributes:
    folder: Folder of the dataset.
    source: TFDS data source with all images.
    class_names: Names of the classes, in the order of the labels.
    labels: Label of each image, int32.
    digests: sha256 of each image.
    splits: Positions of the images of each split.
    names: Digest of the names of classes and files; see `names_digest`.
  """

  folder: pathlib.Path
  source: Any
  class_names: tuple[str, ...]
  labels: np.ndarray
  digests: np.ndarray
  splits: Mapping[str, np.ndarray]
  names: str


def open_stored(name: str, folder: pathlib.Path) -> Stored:
  """Open a dataset that was prepared by us.

  Args:
    name: Name of the dataset.
    folder: Its folder, which exists.

  Raises:
    OSError: if files are missing or damaged. One record of each record file is read.
  """
  try:
    return _open(folder)
  except PermissionError:
    raise
  except Exception as error:  # Damaged files make TFDS raise almost anything.
    raise damaged(name, folder, error) from error


def damaged(name: str, folder: str | os.PathLike, error: Exception | str) -> OSError:
  """Return the error for a prepared dataset that cannot be read.

  Args:
    name: Name of the dataset.
    folder: Its folder.
    error: What is wrong.
  """
  reason = " ".join(str(error).split()).rstrip(".") or type(error).__name__
  if isinstance(error, KeyError):
    reason += " is missing"
  return OSError(f"{folder} is damaged ({reason}); delete it and prepare {name} again.")


def read_metadata(folder: pathlib.Path) -> dict[str, Any]:
  """Return what was written with a dataset.

  Raises:
    OSError: if the file cannot be read.
    ValueError: if it is damaged.
  """
  path = folder / "metadata.json"
  metadata = runtime.read_json(path)
  keys = ("stored", "splits", "labels", "digests", "names")
  if not isinstance(metadata, dict) or not set(keys) <= metadata.keys():
    raise ValueError(f"{path} lacks some of {', '.join(keys)}")
  if not all(isinstance(digest, str) for digest in metadata["digests"]):
    raise ValueError(f"{path} has digests that are not text")
  return metadata


def check_records(name: str, folder: pathlib.Path, progress: bool = False) -> None:
  """Read all records of a dataset, and compare them with its metadata.

  Args:
    name: Name of the dataset.
    folder: Its folder.
    progress: Whether to show a progress bar.

  Raises:
    OSError: if records are missing or damaged.
  """
  stored = open_stored(name, folder)

  count = len(stored.labels)
  try:
    with futures.ThreadPoolExecutor(os.cpu_count()) as executor:
      results = tqdm.tqdm(
        executor.map(functools.partial(_read, stored.source), range(count)),
        desc="verifying",
        total=count,
        unit=" images",
        disable=None if progress else True,  # None shows it in terminals only.
      )
      labels, digests, files = zip(*results, strict=True)
    if (
      not np.array_equal(labels, stored.labels)
      or not np.array_equal(digests, stored.digests)
      or names_digest(stored.class_names, files) != stored.names
    ):
      raise ValueError(_OTHER_RECORDS)
  except Exception as error:
    raise damaged(name, folder, error) from error


def names_digest(class_names: Sequence[str], files: Sequence[str]) -> str:
  """Return the sha256 of the names of classes and files."""
  names = json.dumps([list(class_names), list(files)])
  return hashlib.sha256(names.encode()).hexdigest()


def _open(folder: pathlib.Path) -> Stored:
  for file in ("dataset_info.json", "features.json"):
    runtime.read_json(folder / file)  # TFDS does not say which file is damaged.
  metadata = read_metadata(folder)
  class_names = _class_names(folder, metadata)
  builder = tfds.builder_from_directory(folder)
  source = builder.as_data_source(
    "+".join(metadata["stored"]), decoders={"image": tfds.decode.SkipDecoding()}
  )
  total = len(source)
  labels = _indices("labels", metadata["labels"], len(class_names))
  digests = np.array(metadata["digests"], "U64")
  if not len(labels) == len(digests) == total:
    raise ValueError(
      f"it has {total} records, {len(labels)} labels and {len(digests)} digests"
    )
  splits = {
    split: _indices(split, positions, total)
    for split, positions in metadata["splits"].items()
  }
  for end in itertools.accumulate(
    builder.info.splits[group].num_examples for group in metadata["stored"]
  ):
    if _read(source, end - 1)[:2] != (labels[end - 1], digests[end - 1]):
      raise ValueError(_OTHER_RECORDS)
  return Stored(
    folder=folder,
    source=source,
    class_names=class_names,
    labels=labels.astype(np.int32),
    digests=digests,
    splits=splits,
    names=metadata["names"],
  )


def _class_names(folder: pathlib.Path, metadata: Mapping[str, Any]) -> tuple[str, ...]:
  """Return the names of the classes, from the file that TFDS reads them from."""
  path = folder / "label.labels.txt"
  names = path.read_text(encoding="utf-8").split("\n")
  names = [name.strip() for name in names if name.strip()]
  # Datasets of earlier versions have them in this file only.
  if names != metadata.get("class_names", names):
    raise ValueError(f"the classes in {path} are not those of its metadata")
  features = runtime.read_json(folder / "features.json")["featuresDict"]["features"]
  expected = int(features["label"]["classLabel"]["numClasses"])
  if len(names) != expected:
    count = runtime.counted(len(names), "class", "classes")
    raise ValueError(f"{path} has {count}, expected {expected}")
  return tuple(names)


def _read(source: Any, index: int) -> tuple[int, str, str]:
  """Return the label of an image, its sha256, and its file."""
  example = source[index]
  if None in example.values():  # TFDS does so where a record file is cut off.
    raise ValueError(f"record {index} is empty")
  digest = hashlib.sha256(example["image"]).hexdigest()
  return int(example["label"]), digest, example["file"].decode()


def _indices(name: str, values: Sequence[int], size: int) -> np.ndarray:
  """Return integers below a size as an array."""
  # NumPy turns an empty list into floats.
  indices = np.asarray(values, None if values else np.int64)
  if indices.ndim != 1 or indices.dtype.kind != "i":
    raise ValueError(f"{name} in its metadata are not a list of integers")
  if indices.size and not 0 <= indices.min() <= indices.max() < size:
    raise ValueError(f"{name} in its metadata are not all below {size}")
  return indices
