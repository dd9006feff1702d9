"""Images that are sorted into one folder per class."""

from collections.abc import Sequence
import logging
import pathlib

from pnjax.data import _random_splits
from pnjax.data._archive import Archive
from pnjax.data._archive import ImageFile
from pnjax.data._decode import image_files
from pnjax.data._decode import is_image

_LOGGER = logging.getLogger(__name__)
# Folder names that stand for splits, in lower case.
_SPLIT_FOLDERS = {
  "train": "train",
  "val": "validation",
  "valid": "validation",
  "validation": "validation",
  "test": "test",
}


def read_folder(source: pathlib.Path) -> Archive:
  """Read class folders, or `train/`, `validation/` and `test/` with class folders.

  Without split folders, 80% of each class are `train` and the rest `test`.
  """
  splits = _split_folders(source)
  if not splits:
    names = _folder_names(source)
    loose = sorted(path for path in source.glob("*") if is_image(path))
    _warn_about_ignored("images outside of class folders", loose)
    images = class_images(source, names, names)
    train, test = _random_splits.stratified([i.label for i in images], 0.8, seed=0)
    stored = {"train": [images[i] for i in train], "test": [images[i] for i in test]}
    return Archive(tuple(names), stored)
  others = [source / name for name in _folder_names(source)]
  others = [path for path in others if path not in splits.values()]
  _warn_about_ignored("folders next to the split folders", others)
  names = sorted({name for path in splits.values() for name in _folder_names(path)})
  stored = {
    split: class_images(path, _folder_names(path), names)
    for split, path in splits.items()
  }
  return Archive(tuple(names), stored)


def class_images(
  root: pathlib.Path, folders: Sequence[str], class_names: Sequence[str]
) -> list[ImageFile]:
  """Return the images of class folders, sorted by path within each folder.

  Args:
    root: Folder of the class folders.
    folders: Names of the class folders to read.
    class_names: Names of all classes, in the order of the labels.
  """
  images = []
  for name in folders:
    files = image_files(root / name)
    if not files:
      raise FileNotFoundError(f"{root / name} has no images, expected some.")
    label = class_names.index(name)
    images += [ImageFile(_file_name(path, root), label, path) for path in files]
  if not images:
    raise FileNotFoundError(f"{root} has no folders, expected one for each class.")
  return images


def _split_folders(source: pathlib.Path) -> dict[str, pathlib.Path]:
  """Return the folders that are named like splits and contain folders."""
  found: dict[str, pathlib.Path] = {}
  for name in _folder_names(source):
    split = _SPLIT_FOLDERS.get(name.lower())
    if split is None or not _folder_names(source / name):
      continue
    if split in found:
      raise ValueError(
        f"{found[split]} and {source / name} are both for {split}, expected one "
        "folder; merge them."
      )
    found[split] = source / name
  return {split: found[split] for split in _SPLIT_FOLDERS.values() if split in found}


def _folder_names(root: pathlib.Path) -> list[str]:
  folders = (path.name for path in root.glob("*") if path.is_dir())
  return sorted(name for name in folders if not name.startswith((".", "__MACOSX")))


def _file_name(path: pathlib.Path, root: pathlib.Path) -> str:
  name = path.relative_to(root).as_posix()
  try:
    name.encode()
  except UnicodeEncodeError as error:
    raise ValueError(f"{name!r} in {root} is not valid UTF-8; rename it.") from error
  return name


def _warn_about_ignored(kind: str, paths: Sequence[pathlib.Path]) -> None:
  if paths:
    _LOGGER.warning("%d %s are ignored, such as %s", len(paths), kind, paths[0])
