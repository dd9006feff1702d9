"""Official archives, read from the folders they unpack to."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import itertools
import pathlib

import numpy as np
import scipy.io
import tensorflow_datasets as tfds

from pnjax import runtime
from pnjax.data import _random_splits
from pnjax.data._archive import Archive
from pnjax.data._archive import ImageFile
from pnjax.data._class_folders import class_images

FMD_CLASSES = (
  "fabric",
  "foliage",
  "glass",
  "leather",
  "metal",
  "paper",
  "plastic",
  "stone",
  "water",
  "wood",
)
_NUM_REPEATS = 10
# Number of missing images that an error message names.
_MAX_SHOWN = 10


def read_flower102(source: pathlib.Path) -> Archive:
  """Read Oxford Flower102: `jpg/`, `imagelabels.mat`, `setid.mat`."""
  _check_contents(source, "imagelabels.mat", "setid.mat", "jpg")
  # The archive only numbers its classes; TFDS knows their names.
  names = tfds.builder_cls("oxford_flowers102")().info.features["label"].names
  (labels,) = _read_numbers(source / "imagelabels.mat", ["labels"], len(names))
  ids = {"train": "trnid", "validation": "valid", "test": "tstid"}
  numbers = _read_numbers(source / "setid.mat", ids.values(), len(labels))

  def image(number):
    file = f"jpg/image_{number:05}.jpg"
    return ImageFile(file, int(labels[number - 1]) - 1, source / file)

  stored = {
    split: [image(number) for number in group]
    for split, group in zip(ids, numbers, strict=True)
  }
  _check_exist(itertools.chain.from_iterable(stored.values()))
  return Archive(tuple(names), stored)


def read_mit67(source: pathlib.Path) -> Archive:
  """Read MIT Indoor 67: `Images/<class>/`, `TrainImages.txt`, `TestImages.txt`.

  `train` and `test` are these lists; `train_80` and `test_20` are 80% and 20% of all
  images of each class, as in the paper.
  """
  _check_contents(source, "TrainImages.txt", "TestImages.txt")
  lists = {
    "train": _read_lines(source / "TrainImages.txt"),
    "test": _read_lines(source / "TestImages.txt"),
  }
  names = _listed_classes(lists)
  images = _read_classes(source, "Images", names)
  train, test = _random_splits.stratified([i.label for i in images], 0.8, seed=0)
  return Archive(
    tuple(names),
    {"images": images},
    _positions(images, lists) | {"train_80": train, "test_20": test},
  )


def read_fmd(source: pathlib.Path, splits: pathlib.Path | None = None) -> Archive:
  """Read the Flickr Material Database: `image/<class>/`, or just the class folders.

  `half_1_train` … `half_10_test` are ten random halves of each class, `fold_1_train`
  … `fold_10_test` the ten 90/10 splits of a cross-validation.

  Args:
    source: Folder of the archive.
    splits: Folder of lists `train_1.txt`, `test_1.txt`, … to use as folds instead; a
      line is `class/file`.
  """
  images = _read_classes(source, "image", FMD_CLASSES)
  labels = [image.label for image in images]
  lists = {}
  for k in range(1, _NUM_REPEATS + 1):
    halves = _random_splits.stratified(labels, 0.5, seed=k)
    lists[f"half_{k}_train"], lists[f"half_{k}_test"] = halves
  if splits is None:
    lists |= _random_splits.folds(labels, _NUM_REPEATS)
  else:
    lists |= _listed_folds(images, splits)
  return Archive(FMD_CLASSES, {"images": images}, lists)


def read_food101(source: pathlib.Path) -> Archive:
  """Read Food-101: `images/<class>/`, `meta/train.txt`, `meta/test.txt`."""
  nested = source / "food-101"
  source = nested if nested.is_dir() else source
  _check_contents(source, "images", "meta/train.txt", "meta/test.txt")
  lists = {
    split: _read_lines(source / f"meta/{split}.txt") for split in ("train", "test")
  }
  names = _listed_classes(lists)

  def image(line):
    file = f"images/{line}.jpg"
    return ImageFile(file, names.index(line.split("/")[0]), source / file)

  stored = {split: [image(line) for line in lines] for split, lines in lists.items()}
  _check_exist(itertools.chain.from_iterable(stored.values()))
  return Archive(tuple(names), stored)


def _listed_classes(lists: Mapping[str, Sequence[str]]) -> list[str]:
  return sorted({line.split("/")[0] for lines in lists.values() for line in lines})


def _read_classes(
  source: pathlib.Path, subfolder: str, names: Sequence[str]
) -> list[ImageFile]:
  """Read class folders in a subfolder or, if there is none, in the source itself."""
  nested = source / subfolder
  root = nested if nested.is_dir() else source
  _check_contents(root, *names)
  return class_images(root, names, names)


def _listed_folds(
  images: Sequence[ImageFile], splits: pathlib.Path
) -> dict[str, list[int]]:
  lists = {
    f"fold_{k}_{part}": _read_lines(splits / f"{part}_{k}.txt")
    for k in range(1, _NUM_REPEATS + 1)
    for part in ("train", "test")
  }
  return _positions(images, lists)


def _positions(
  images: Sequence[ImageFile], lists: Mapping[str, Sequence[str]]
) -> dict[str, list[int]]:
  """Return lists of files as lists of positions in `images`."""
  position = {image.file: i for i, image in enumerate(images)}
  listed = itertools.chain.from_iterable(lists.values())
  _check_complete([file for file in listed if file not in position])
  return {split: [position[f] for f in files] for split, files in lists.items()}


def _read_numbers(
  path: pathlib.Path, names: Iterable[str], largest: int
) -> list[np.ndarray]:
  """Return arrays of a MATLAB file, of numbers from 1."""
  try:
    contents = scipy.io.loadmat(path)
    arrays = [contents[name].ravel() for name in names]
  except KeyError as error:
    raise _damaged(path, f"it has no {error}") from error
  except Exception as error:  # Damaged files make SciPy raise almost anything.
    raise _damaged(path, error) from error
  for array in arrays:
    if not array.size or array.dtype.kind not in "iu" or array.min() < 1:
      raise _damaged(path, "expected numbers from 1")
    if array.max() > largest:
      raise _damaged(path, f"it has {array.max()}, expected at most {largest}")
  return arrays


def _damaged(path: pathlib.Path, error: Exception | str) -> ValueError:
  return ValueError(f"{path} is damaged ({error}); unpack the archive again.")


def _read_lines(path: pathlib.Path) -> list[str]:
  try:
    lines = path.read_text(encoding="utf-8").splitlines()
  except UnicodeDecodeError as error:
    raise _damaged(path, error) from error
  return [line.strip() for line in lines if line.strip()]


def _check_contents(source: pathlib.Path, *names: str) -> None:
  missing = [name for name in names if not (source / name).exists()]
  if missing:
    raise FileNotFoundError(
      f"{source} has no {' and no '.join(missing)}; expected the folder that the "
      "official archive unpacks to."
    )


def _check_exist(images: Iterable[ImageFile]) -> None:
  _check_complete([str(i.path) for i in images if not i.path.is_file()])


def _check_complete(missing: Sequence[str]) -> None:
  if missing:
    shown = ", ".join(missing[:_MAX_SHOWN])
    more = ", …" if len(missing) > _MAX_SHOWN else ""
    raise FileNotFoundError(
      f"{runtime.counted(len(missing), 'listed image is', 'listed images are')} "
      f"missing: {shown}{more}; unpack the whole archive."
    )
