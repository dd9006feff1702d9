"""Images that are sorted into one folder per class."""

from collections.abc import Mapping
from collections.abc import Sequence
from collections.abc import Set
import logging
import pathlib

from pnjax import runtime
from pnjax.data import _random_splits
from pnjax.data._archive import Archive
from pnjax.data._archive import ImageFile
from pnjax.data._decode import image_files
from pnjax.data._decode import is_image
from pnjax.data._decode import unreadable

_LOGGER = logging.getLogger(__name__)
# Number of classes that a message names.
_MAX_SHOWN = 10
# Folder names that stand for splits, in lower case.
_SPLIT_FOLDERS = {
  "train": "train",
  "val": "validation",
  "valid": "validation",
  "validation": "validation",
  "test": "test",
}
SPLITS = tuple(dict.fromkeys(_SPLIT_FOLDERS.values()))


def read_folder(source: pathlib.Path) -> Archive:
  """Read class folders, or `train/`, `validation/` and `test/` with class folders.

  Without split folders, 80% of each class are `train` and the rest `test`.
  """
  splits = _split_folders(source)
  if not splits:
    names = _folder_names(source)
    _check_nesting(source, names)
    loose = sorted(path for path in source.glob("*") if is_image(path))
    _warn_about_ignored("image", "outside of class folders", loose)
    _warn_about_other_files([source / name for name in names])
    return Archive(tuple(names), divided(class_images(source, names, names)))
  others = [source / name for name in _folder_names(source)]
  others = [path for path in others if path not in splits.values()]
  _warn_about_ignored("folder", "next to the split folders", others)
  classes = {split: set(_folder_names(path)) for split, path in splits.items()}
  check_classes(classes)
  for split, path in splits.items():
    _warn_about_other_files([path / name for name in sorted(classes[split])])
  names = sorted(set().union(*classes.values()))
  stored = {
    split: class_images(path, sorted(classes[split]), names)
    for split, path in splits.items()
  }
  return Archive(tuple(names), stored)


def _check_nesting(source: pathlib.Path, names: Sequence[str]) -> None:
  """Raise ValueError if the only folder holds the class folders."""
  if len(names) != 1:
    return
  (inner,) = (source / name for name in names)
  if any(image_files(inner / name) for name in _folder_names(inner)):
    raise ValueError(
      f"there is only one class, {names[0]!r}; expected two or more. If the folders in "
      f"{inner} are the classes (or train and test), use that one as the source."
    )


def divided(images: Sequence[ImageFile]) -> dict[str, list[ImageFile]]:
  """Return 80% of each class as `train`, and the rest as `test`."""
  train, test = _random_splits.stratified([i.label for i in images], 0.8, seed=0)
  if not test:
    raise ValueError(
      f"No class has two images ({runtime.counted(len(images), 'image')} in "
      "all), expected more: one image of each class is to evaluate on."
    )
  return {"train": [images[i] for i in train], "test": [images[i] for i in test]}


def split_of_name(name: str) -> str | None:
  """Return the split that a name stands for, such as `validation` for `Val`."""
  return _SPLIT_FOLDERS.get(name.lower())


def check_classes(classes: Mapping[str, Set[str]]) -> None:
  """Raise ValueError if a split has classes that there is nothing to learn from.

  Args:
    classes: Names of the classes of each split.
  """
  known = classes.get("train")
  if known is None:
    raise ValueError(
      f"there are images of {' and '.join(classes)} only, expected some of train."
    )
  for split, own in classes.items():
    if own == known:
      continue
    lacking = f"{split} lacks {_listed(known - own)} of train" if known - own else ""
    if own - known:
      raise ValueError(
        f"{split} has classes that train does not have: {_listed(own - known)}"
        f"{f'; {lacking}' if lacking else ''}; expected the names of train, which are "
        f"{_listed(known)}."
      )
    _LOGGER.warning("%s", lacking)


def _listed(names: Set[str]) -> str:
  shown = sorted(names)[:_MAX_SHOWN]
  return ", ".join([*shown, *["…"][: len(names) > _MAX_SHOWN]])


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
    split = split_of_name(name)
    if split is None or not _folder_names(source / name):
      continue
    if split in found:
      raise ValueError(
        f"{found[split]} and {source / name} are both for {split}, expected one "
        "folder; merge them."
      )
    found[split] = source / name
  return {split: found[split] for split in SPLITS if split in found}


def _folder_names(root: pathlib.Path) -> list[str]:
  try:
    folders = [path.name for path in root.iterdir() if path.is_dir()]
  except OSError as error:
    raise unreadable(error) from error
  return sorted(name for name in folders if not name.startswith((".", "__MACOSX")))


def _file_name(path: pathlib.Path, root: pathlib.Path) -> str:
  name = path.relative_to(root).as_posix()
  try:
    name.encode()
  except UnicodeEncodeError as error:
    raise ValueError(f"{name!r} in {root} is not valid UTF-8; rename it.") from error
  return name


def _warn_about_other_files(folders: Sequence[pathlib.Path]) -> None:
  """Report files that may be images, but in formats with other suffixes."""
  files = [path for folder in folders for path in sorted(folder.rglob("*.*"))]
  others = [
    path
    for path in files
    if not is_image(path) and not path.name.startswith(".") and path.is_file()
  ]
  _warn_about_ignored("file", "without a suffix of images", others)


def _warn_about_ignored(kind: str, where: str, paths: Sequence[pathlib.Path]) -> None:
  if paths:
    count = runtime.counted(len(paths), f"{kind} {where} is", f"{kind}s {where} are")
    _LOGGER.warning("%s ignored, such as %s", count, paths[0])
