"""Layouts of the official archives: which picture is where, and in which split.

Every function takes a folder as an archive unpacks and returns an `Archive`.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import itertools
import logging
import pathlib

import numpy as np
import scipy.io
import tensorflow_datasets as tfds

from pnjax.data import _decode

_LOGGER = logging.getLogger(__name__)
# Names of folders, in any case, that stand for splits.
_SPLIT_FOLDERS = {
  "train": "train",
  "val": "validation",
  "valid": "validation",
  "validation": "validation",
  "test": "test",
}
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
# Missing pictures that an error names.
_MAX_SHOWN = 10


@dataclasses.dataclass(frozen=True)
class Picture:
  """A picture of an archive.

  Attributes:
    file: path in the archive, with `/` on any system.
    label: number of its class.
    path: where it is.
  """

  file: str
  label: int
  path: pathlib.Path

  def read(self) -> bytes:
    """Returns the encoded picture."""
    return self.path.read_bytes()


@dataclasses.dataclass(frozen=True)
class Archive:
  """What is in an archive.

  Attributes:
    class_names: in the order of the labels.
    stored: all pictures, each once, by the split that it is in.
    lists: splits that share pictures, if there are such, in place of the stored
      ones: positions in all stored pictures, one behind the other.
  """

  class_names: tuple[str, ...]
  stored: Mapping[str, Sequence[Picture]]
  lists: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=dict)


def flower102(source: pathlib.Path) -> Archive:
  """Oxford Flower102: `jpg/`, `imagelabels.mat`, `setid.mat`."""
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
  _check_exist(itertools.chain.from_iterable(stored.values()))
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
  pictures = _class_folders(images, names, names)
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
  images = images if images.is_dir() else source
  pictures = _class_folders(images, _FMD_CLASSES, _FMD_CLASSES)
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
  _check_exist(itertools.chain.from_iterable(stored.values()))
  return Archive(tuple(names), stored)


def folder(source: pathlib.Path) -> Archive:
  """Your own pictures: class folders, or `train/`, `validation/`, `test/` of them.

  Without split folders, 80% of each class are `train` and the others `test`.
  """
  splits = _split_folders(source)
  if not splits:
    names = _folder_names(source)
    _warn_of_left_out("pictures beside the class folders", _pictures_at_top(source))
    pictures = _class_folders(source, names, names)
    train, test = _stratified(pictures, 0.8, seed=0)
    stored = {
      "train": [pictures[i] for i in train],
      "test": [pictures[i] for i in test],
    }
    return Archive(tuple(names), stored)
  beside = [source / name for name in _folder_names(source)]
  beside = [path for path in beside if path not in splits.values()]
  _warn_of_left_out("folders beside those of splits", beside)
  names = sorted({name for path in splits.values() for name in _folder_names(path)})
  stored = {
    split: _class_folders(path, _folder_names(path), names)
    for split, path in splits.items()
  }
  return Archive(tuple(names), stored)


def _split_folders(source: pathlib.Path) -> dict[str, pathlib.Path]:
  """Folders of splits by their names; they have folders of classes in them."""
  found = {}
  for name in _folder_names(source):
    split = _SPLIT_FOLDERS.get(name.lower())
    if split is None or not _folder_names(source / name):
      continue
    if split in found:
      raise ValueError(f"{found[split]} and {source / name} are both for {split}.")
    found[split] = source / name
  return {split: found[split] for split in _SPLIT_FOLDERS.values() if split in found}


def _pictures_at_top(root: pathlib.Path) -> list[pathlib.Path]:
  return sorted(filter(_decode.is_picture, root.glob("*")))


def _warn_of_left_out(what: str, paths: Sequence[pathlib.Path]) -> None:
  if paths:
    _LOGGER.warning("%d %s are left out, such as %s", len(paths), what, paths[0])


def _class_folders(
  root: pathlib.Path, folders: Sequence[str], class_names: Sequence[str]
) -> list[Picture]:
  """Pictures of class folders, in alphabetical order of their paths."""
  pictures = []
  for name in folders:
    _check_files(root, name)
    files = _decode.picture_files(root / name)
    if not files:
      raise FileNotFoundError(f"{root / name} has no pictures, expected some.")
    label = class_names.index(name)
    pictures += [Picture(_file_name(p, root), label, p) for p in files]
  if not pictures:
    raise FileNotFoundError(f"{root} has no folders, expected one for each class.")
  return pictures


def _file_name(path: pathlib.Path, root: pathlib.Path) -> str:
  name = path.relative_to(root).as_posix()
  try:
    name.encode()
  except UnicodeEncodeError as error:
    raise ValueError(f"{name!r} in {root} is no name in UTF-8; rename it.") from error
  return name


def _folder_names(root: pathlib.Path) -> list[str]:
  """Names of the folders in a folder, which may not be there."""
  folders = (path.name for path in root.glob("*") if path.is_dir())
  return sorted(name for name in folders if not name.startswith((".", "__MACOSX")))


def _stratified(
  pictures: Sequence[Picture], share: float, seed: int
) -> tuple[list[int], list[int]]:
  """Positions of a random share of each class, and of the others."""
  rng = np.random.default_rng(seed)
  labels = np.array([picture.label for picture in pictures])
  first = []
  for label in np.unique(labels):
    members = np.flatnonzero(labels == label)
    # One at least is left for the others, as long as there are two.
    count = min(round(share * len(members)), max(len(members) - 1, 1))
    first += rng.permutation(members)[:count].tolist()
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
  pictures: Sequence[Picture], lists: Mapping[str, Sequence[str]]
) -> dict[str, list[int]]:
  """Lists of files as positions among the pictures."""
  position = {picture.file: i for i, picture in enumerate(pictures)}
  files = itertools.chain.from_iterable(lists.values())
  _check_complete([file for file in files if file not in position])
  return {split: [position[f] for f in files] for split, files in lists.items()}


def _check_exist(pictures: Iterable[Picture]) -> None:
  _check_complete([str(p.path) for p in pictures if not p.path.is_file()])


def _check_complete(missing: Sequence[str]) -> None:
  if missing:
    shown = ", ".join(missing[:_MAX_SHOWN])
    more = ", …" if len(missing) > _MAX_SHOWN else ""
    raise FileNotFoundError(
      f"{len(missing)} pictures that are listed are not there: {shown}{more}; unpack "
      "all of the archive."
    )


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
