"""Datasets that TFDS has prepared with builders other than ours.

They are read from their files alone, without the code of their builders and without
TensorFlow. Digests and labels are read from the images once, and kept in the cache.
"""

from collections.abc import Sequence
from concurrent import futures
import dataclasses
import hashlib
import json
import os
import pathlib
import re
from typing import Any
from typing import NamedTuple

import numpy as np
import tensorflow_datasets as tfds
import tqdm

from pnjax import runtime
from pnjax.data import _prepare
from pnjax.data._decode import decode

# As TFDS writes it: NAME, NAME/CONFIG, and either with a version after a colon.
_NAME = re.compile(r"(\w+)(?:/([\w.+-]+))?(?::(\d+\.\d+\.\d+))?")
# Text features that are the name of an image's file.
_FILE_NAMES = ("file_name", "image/file_name", "image/filename", "filename", "file")


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


def find(name: str, data_dir: pathlib.Path) -> pathlib.Path:
  """Return the folder of a prepared dataset.

  Args:
    name: Name of the dataset, as TFDS writes it: `caltech101`, `NAME/CONFIG`,
      `NAME:1.0.0`. Without a version, it is the latest one.
    data_dir: TFDS's folder of datasets.

  Raises:
    FileNotFoundError: if it is not prepared there.
  """
  known = ", ".join(_prepare.DATASETS)
  expected = f"`name` is {name!r}, expected one of {known}, or a dataset of TFDS"
  match = _NAME.fullmatch(name)
  if match is None:
    raise FileNotFoundError(f"{expected}: NAME, NAME/CONFIG or NAME/CONFIG:1.0.0.")
  dataset, config, version = match.groups()
  root = data_dir / dataset
  folder = root / config if config else root
  if config is None and not _versions(root):
    default = tfds.core.dataset_builder.load_default_config_name(root)
    folder = root / default if default else root
  versions = _versions(folder)
  if versions and version in (None, *versions):
    return folder / (version or versions[-1])
  others = [
    f"{path.relative_to(data_dir).as_posix()}:{found}"
    for path in (root, *sorted(root.glob("*")))
    for found in _versions(path)
  ]
  raise FileNotFoundError(
    f"{expected} that is prepared in {data_dir}: "
    + (
      f"there is {', '.join(others)}."
      if others
      else f"`tfds build {dataset} --file_format=array_record --data_dir={data_dir}` "
      "prepares one."
    )
  )


def open_dataset(name: str, folder: pathlib.Path) -> Dataset:
  """Open a dataset of images with one label each.

  Args:
    name: Name of the dataset.
    folder: Its folder, as `find` returns it.

  Raises:
    ValueError: if it is stored in another format than array_record, or has no images
      or not one label each.
  """
  for file in ("dataset_info.json", "features.json"):
    runtime.read_json(folder / file)  # TFDS does not say which file is damaged.
  try:
    builder = tfds.builder_from_directory(folder)
    info = builder.info
    image, label = _image_and_label(name, info)
    decoders = {
      key: tfds.decode.SkipDecoding()
      for key, feature in info.features.items()
      if isinstance(feature, tfds.features.Image)
    }
    source = builder.as_data_source("+".join(info.splits), decoders=decoders)
  except NotImplementedError as error:
    raise ValueError(
      f"{folder} is stored as {info.file_format.value}, expected array_record: prepare "
      f'{name} with file_format="array_record" in another data_dir, or convert it with '
      "`tfds convert_format`."
    ) from error
  splits, start = {}, 0
  for split in info.splits:
    splits[split] = range(start, start + info.splits[split].num_examples)
    start = splits[split].stop
  texts = [k for k, f in info.features.items() if type(f) is tfds.features.Text]
  files = [name for name in _FILE_NAMES if name in texts]
  return Dataset(
    name=name,
    examples=Examples(source, image, label, files[0] if files else None),
    class_names=tuple(info.features[label].names),
    splits=splits,
  )


def _versions(folder: pathlib.Path) -> list[str]:
  """Return the versions in a folder, the latest one last."""
  names = [path.name for path in folder.glob("*") if path.is_dir()]
  valid = [name for name in names if tfds.core.Version.is_valid(name)]
  return sorted(valid, key=tfds.core.Version)


def _image_and_label(name: str, info: tfds.core.DatasetInfo) -> tuple[str, str]:
  """Return the names of the features that are the image and its label."""
  features = dict(info.features.items())
  images = [
    key
    for key, feature in features.items()
    if type(feature) is tfds.features.Image and feature.np_dtype == np.uint8
  ]
  labels = [k for k, f in features.items() if type(f) is tfds.features.ClassLabel]
  image = _choose(images, info.supervised_keys, 0)
  label = _choose(labels, info.supervised_keys, 1)
  if image is None or label is None:
    kind, count = (
      ("Image (uint8)", len(images)) if image is None else ("ClassLabel", len(labels))
    )
    raise ValueError(
      f"{name} has {count or 'no'} features of type {kind}, expected one for each "
      f"image; it has {', '.join(f'{k}: {_kind(f)}' for k, f in features.items())}."
    )
  return image, label


def _kind(feature: Any) -> str:
  """Return the type of a feature: `Sequence of ClassLabel` for several labels."""
  inner = getattr(feature, "feature", None)
  name = type(feature).__name__
  return name if inner is None else f"{name} of {type(inner).__name__}"


def _choose(candidates: Sequence[str], supervised: Any, position: int) -> str | None:
  """Return the feature that TFDS itself would train with, or else the only one."""
  if isinstance(supervised, tuple) and len(supervised) == 2:
    if supervised[position] in candidates:
      return supervised[position]
  usual = ("image", "label")[position]
  if usual in candidates:
    return usual
  return candidates[0] if len(candidates) == 1 else None


def _read_index(dataset: Dataset, split: str) -> tuple[np.ndarray, np.ndarray]:
  """Return the labels and digests of a split, from the cache if they are there."""
  path = _index_path(dataset, split)
  if path.exists():
    with np.load(path) as index:
      return index["labels"], index["digests"]
  labels, digests = _make_index(dataset, split)
  path.parent.mkdir(parents=True, exist_ok=True)
  temporary = path.with_name(f".{os.getpid()}-{path.name}")
  np.savez(temporary, labels=labels, digests=digests)
  temporary.replace(path)
  return labels, digests


def _index_path(dataset: Dataset, split: str) -> pathlib.Path:
  """Return where the index of a split is kept: it depends on the files of the split."""
  examples = dataset.examples
  paths = [pathlib.Path(p) for p in examples.dataset_info.splits[split].filepaths]
  stats = [(str(path.absolute()), path.stat()) for path in paths]
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
    example = examples[position]
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
      f"{len(broken)} of {len(positions)} images of {dataset.name}, {split}, are "
      f"broken, expected none; the first is {broken[0]}"
    )
  return np.array(labels, np.int32), np.array(digests, "U64")
