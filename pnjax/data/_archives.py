"""Layouts of the official archives: which picture is where, and in which split.

Every function takes a folder as an archive unpacks and returns an `Archive`.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import pathlib

import numpy as np

_SUFFIXES = frozenset(
  (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp", ".tif", ".tiff", ".ppm")
)
_SPLIT_FOLDERS = ("train", "validation", "test")
_FMD_CLASSES = (
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
# Of an error's list.
_MAX_SHOWN = 10


@dataclasses.dataclass(frozen=True)
class Picture:
  """A picture of an archive.

  Attributes:
    file: path in the archive, with `/` on any system.
    label: number of its class.
    path: where it can be read.
  """

  file: str
  label: int
  path: pathlib.Path


@dataclasses.dataclass(frozen=True)
class Archive:
  """What is in an archive.

  Attributes:
    class_names: in the order of the labels.
    stored: pictures by the split that holds them; every picture is in one.
    lists: splits besides, which share pictures: positions in all stored splits, one
      behind the other.
  """

  class_names: tuple[str, ...]
  stored: Mapping[str, Sequence[Picture]]
  lists: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=dict)


def flower102(source: pathlib.Path) -> Archive:
  """Oxford Flower102: `jpg/`, `imagelabels.mat`, `setid.mat`."""
  import scipy.io
  import tensorflow_datasets as tfds

  _check_files(source, "imagelabels.mat", "setid.mat", "jpg")
  labels = scipy.io.loadmat(source / "imagelabels.mat")["labels"].ravel()
  numbers = scipy.io.loadmat(source / "setid.mat")

  def picture(number):
    file = f"jpg/image_{number:05}.jpg"
    return Picture(file, int(labels[number - 1]) - 1, source / file)

  ids = {"train": "trnid", "validation": "valid", "test": "tstid"}
  stored = {
    split: [picture(number) for number in numbers[key].ravel()]
    for split, key in ids.items()
  }
  # The archive only numbers its classes; TFDS knows their names.
  names = tfds.builder_cls("oxford_flowers102")().info.features["label"].names
  return Archive(tuple(names), stored)


def mit67(source: pathlib.Path) -> Archive:
  """MIT Indoor 67: `Images/<class>/`, `TrainImages.txt`, `TestImages.txt`.

  `train` and `test` are these lists; `train_80` and `test_20` are 80% and 20% of all
  pictures of each class, as in the paper.
  """
  _check_files(source, "TrainImages.txt", "TestImages.txt")
  images = source / "Images"
  images = images if images.is_dir() else source
  lists = {
    "train": _lines(source / "TrainImages.txt"),
    "test": _lines(source / "TestImages.txt"),
  }
  names = sorted({line.split("/")[0] for lines in lists.values() for line in lines})
  pictures = _class_folders(images, names)
  train, test = _stratified(pictures, 0.8, seed=0)
  return Archive(
    tuple(names),
    {"pictures": pictures},
    _positions(pictures, lists) | {"train_80": train, "test_20": test},
  )


def fmd(source: pathlib.Path, splits: pathlib.Path | None = None) -> Archive:
  """Flickr Material Database: `image/<class>/`, or the class folders themselves.

  `half_1_train` … `half_10_test` are ten random halves of each class, `fold_1_train`
  … `fold_10_test` the ten 90/10 splits of a cross-validation.

  Args:
    source: the folder.
    splits: folder of lists `train_1.txt`, `test_1.txt`, … to take instead of those
      folds; a line is `class/file`.
  """
  images = source / "image"
  pictures = _class_folders(images if images.is_dir() else source, _FMD_CLASSES)
  lists = {}
  for k in range(1, _NUM_REPEATS + 1):
    halves = _stratified(pictures, 0.5, seed=k)
    lists[f"half_{k}_train"], lists[f"half_{k}_test"] = halves
  lists |= _folds(pictures) if splits is None else _listed_folds(pictures, splits)
  return Archive(_FMD_CLASSES, {"pictures": pictures}, lists)


def food101(source: pathlib.Path) -> Archive:
  """Food-101: `images/<class>/`, `meta/train.txt`, `meta/test.txt`."""
  nested = source / "food-101"
  source = nested if nested.is_dir() else source
  _check_files(source, "images", "meta/train.txt", "meta/test.txt")
  lists = {split: _lines(source / f"meta/{split}.txt") for split in ("train", "test")}
  names = sorted({line.split("/")[0] for lines in lists.values() for line in lines})

  def picture(line):
    file = f"images/{line}.jpg"
    return Picture(file, names.index(line.split("/")[0]), source / file)

  stored = {split: [picture(line) for line in lines] for split, lines in lists.items()}
  return Archive(tuple(names), stored)


def folder(source: pathlib.Path) -> Archive:
  """Your own pictures: class folders, or `train/`, `test/`, `validation/` of them.

  Without split folders, 80% of each class are `train` and the others `test`.
  """
  splits = [split for split in _SPLIT_FOLDERS if (source / split).is_dir()]
  roots = {split: source / split for split in splits} or {"": source}
  names = sorted({name for root in roots.values() for name in _folder_names(root)})
  stored = {
    split: _class_folders(root, [n for n in names if (root / n).is_dir()], names)
    for split, root in roots.items()
  }
  if not splits:
    parts = _stratified(stored[""], 0.8, seed=0)
    stored = {
      split: [stored[""][i] for i in part]
      for split, part in zip(("train", "test"), parts, strict=True)
    }
  return Archive(tuple(names), stored)


def _class_folders(root, names, all_names=None) -> list[Picture]:
  """Pictures of class folders, in alphabetical order."""
  all_names = names if all_names is None else all_names
  pictures = []
  for name in names:
    _check_files(root, name)
    for path in sorted((root / name).rglob("*")):
      if path.suffix.lower() in _SUFFIXES and not path.name.startswith("."):
        file = path.relative_to(root).as_posix()
        pictures.append(Picture(file, all_names.index(name), path))
  return pictures


def _folder_names(root: pathlib.Path) -> list[str]:
  folders = (path.name for path in root.iterdir() if path.is_dir())
  return sorted(name for name in folders if not name.startswith("."))


def _stratified(
  pictures: Sequence[Picture], share: float, seed: int
) -> tuple[list[int], list[int]]:
  """Positions of a random share of each class, and of the others."""
  rng = np.random.default_rng(seed)
  labels = np.array([picture.label for picture in pictures])
  first = []
  for label in np.unique(labels):
    members = np.flatnonzero(labels == label)
    first += rng.permutation(members)[: round(share * len(members))].tolist()
  others = np.setdiff1d(np.arange(len(pictures)), first)
  return sorted(first), others.tolist()


def _folds(pictures: Sequence[Picture]) -> dict[str, list[int]]:
  """Ten folds, stratified by class: every picture is in one test split."""
  rng = np.random.default_rng(0)
  labels = np.array([picture.label for picture in pictures])
  fold = np.empty_like(labels)
  for label in np.unique(labels):
    members = np.flatnonzero(labels == label)
    fold[rng.permutation(members)] = np.arange(len(members)) % _NUM_REPEATS
  lists = {}
  for k in range(_NUM_REPEATS):
    lists[f"fold_{k + 1}_train"] = np.flatnonzero(fold != k).tolist()
    lists[f"fold_{k + 1}_test"] = np.flatnonzero(fold == k).tolist()
  return lists


def _listed_folds(
  pictures: Sequence[Picture], splits: pathlib.Path
) -> dict[str, list[int]]:
  lists = {
    f"fold_{k}_{part}": _lines(splits / f"{part}_{k}.txt")
    for k in range(1, _NUM_REPEATS + 1)
    for part in ("train", "test")
  }
  return _positions(pictures, lists)


def _positions(
  pictures: Sequence[Picture], lists: Mapping[str, Iterable[str]]
) -> dict[str, list[int]]:
  """Lists of files as positions among the pictures."""
  position = {picture.file: i for i, picture in enumerate(pictures)}
  missing = sorted({f for files in lists.values() for f in files} - position.keys())
  if missing:
    shown = ", ".join(missing[:_MAX_SHOWN])
    raise FileNotFoundError(
      f"{len(missing)} listed pictures are not in the archive: {shown}"
    )
  return {split: [position[f] for f in files] for split, files in lists.items()}


def _lines(path: pathlib.Path) -> list[str]:
  lines = path.read_text(encoding="utf-8").splitlines()
  return [line.strip() for line in lines if line.strip()]


def _check_files(source: pathlib.Path, *names: str) -> None:
  missing = [name for name in names if not (source / name).exists()]
  if missing:
    raise FileNotFoundError(
      f"{source} has no {' and no '.join(missing)}; expected the folder that the "
      "official archive unpacks to."
    )
