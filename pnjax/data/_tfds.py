"""Datasets that TFDS has prepared with builders other than ours.

They are read from their files alone, without the code of their builders and without
TensorFlow.
"""

from collections.abc import Sequence
import pathlib
import re
from typing import Any

import numpy as np
import tensorflow_datasets as tfds

from pnjax import runtime
from pnjax.data import _prepare
from pnjax.data import _stored
from pnjax.data._tfds_index import Dataset
from pnjax.data._tfds_index import Examples

# As TFDS writes it: NAME, NAME/CONFIG, and either with a version after a colon.
_NAME = re.compile(r"(\w+)(?:/([\w.+-]+))?(?::(\d+\.\d+\.\d+))?")
# Text features that are the name of an image's file.
_FILE_NAMES = ("file_name", "image/file_name", "image/filename", "filename", "file")


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
    try:
      default = tfds.core.dataset_builder.load_default_config_name(root)
    except (AttributeError, KeyError, ValueError) as error:
      raise _stored.damaged(name, root / ".config", error) from error
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
  try:
    for file in ("dataset_info.json", "features.json"):
      runtime.read_json(folder / file)  # TFDS does not say which file is damaged.
    builder = tfds.builder_from_directory(folder)
    info = builder.info
    features = dict(info.features.items())
    splits = _split_positions(info)
  except PermissionError:
    raise
  except Exception as error:  # Damaged files make TFDS raise almost anything.
    raise _stored.damaged(name, folder, error) from error
  if not any(splits.values()):
    raise ValueError(f"{name} in {folder} has no images, expected some.")
  image, label = _image_and_label(name, info)
  decoders = {
    key: tfds.decode.SkipDecoding()
    for key, feature in features.items()
    if isinstance(feature, tfds.features.Image)
  }
  try:
    source = builder.as_data_source("+".join(splits), decoders=decoders)
  except NotImplementedError as error:
    raise ValueError(
      f"{folder} is stored as {info.file_format.value}, expected array_record: prepare "
      f'{name} with file_format="array_record" in another data_dir, or convert it with '
      "`tfds convert_format`."
    ) from error
  texts = [k for k, f in features.items() if type(f) is tfds.features.Text]
  files = [name for name in _FILE_NAMES if name in texts]
  return Dataset(
    name=name,
    examples=Examples(source, image, label, files[0] if files else None),
    class_names=tuple(info.features[label].names),
    splits=splits,
  )


def _split_positions(info: tfds.core.DatasetInfo) -> dict[str, range]:
  """Return the positions of the images of each split, when all are read at once."""
  splits, start = {}, 0
  for split in info.splits:
    splits[split] = range(start, start + info.splits[split].num_examples)
    start = splits[split].stop
  return splits


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
