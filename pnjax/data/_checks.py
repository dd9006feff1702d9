"""Checks of an archive before it is prepared."""

from collections.abc import Container
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from concurrent import futures
import functools
import hashlib
import logging
import os
import pathlib

import numpy as np
import tqdm

from pnjax import runtime
from pnjax.data._archive import Archive
from pnjax.data._archive import ArchiveImage
from pnjax.data._archive import is_control
from pnjax.data._decode import decode

_LOGGER = logging.getLogger(__name__)
# As long as the name of a folder may be.
_MAX_NAME_LENGTH = 255
# Number of classes that a message names.
_MAX_SHOWN = 10
_ADVICE = "rename it."


def check_names(archive: Archive) -> None:
  """Raise ValueError if there are not two classes, or for names that do not print."""
  names = archive.class_names
  if len(names) < 2:
    raise ValueError(
      f"there is only one class, {', '.join(map(repr, names))}; expected two or more."
    )
  for name in names:
    if name != name.strip() or not name:
      raise ValueError(
        f"class {name!r} has spaces around its name, or no name; {_ADVICE}"
      )
    if len(name) > _MAX_NAME_LENGTH:
      raise ValueError(
        f"class {name[:20]!r}… has a name of {len(name)} characters, expected at most "
        f"{_MAX_NAME_LENGTH}; {_ADVICE}"
      )
  for kind, texts in (
    ("class", names),
    ("image", [image.file for image in archive.images]),
  ):
    for text in texts:
      if not text.isprintable() and any(map(is_control, text)):
        raise ValueError(
          f"{kind} {text!r} has line breaks or other control characters in its name; "
          f"{_ADVICE}"
        )


def digests(
  archive: Archive, known: Container[str], progress: bool, advice: str
) -> list[str]:
  """Return the sha256 of each image, after checking that none is broken.

  Args:
    archive: Images to read.
    known: Digests of images that were checked before.
    progress: Whether to show a progress bar.
    advice: What to do about images that are broken.

  Raises:
    OSError: if images cannot be read, for instance because a disk has vanished.
    ValueError: if images are broken; the message lists them all.
  """
  images = archive.images
  with futures.ThreadPoolExecutor(os.cpu_count()) as executor:
    results = tqdm.tqdm(
      executor.map(functools.partial(_inspect, known=known), images),
      desc="checking",
      total=len(images),
      unit=" images",
      disable=None if progress else True,  # None shows it in terminals only.
    )
    found, errors = zip(*results, strict=True)
  failed = [
    (image, error) for image, error in zip(images, errors, strict=True) if error
  ]
  broken = [f"{image}: {e}" for image, e in failed if isinstance(e, ValueError)]
  if len(broken) < len(failed):
    raise _unreadable(failed, len(images))
  if broken:
    of_all = f"of {runtime.counted(len(images), 'image')}"
    raise ValueError(
      f"{runtime.counted(len(broken), f'{of_all} is', f'{of_all} are')} broken; "
      f"{advice}. Nothing was prepared.\n" + "\n".join(broken)
    )
  return list(found)


def _unreadable(
  failed: Sequence[tuple[ArchiveImage, Exception]], total: int
) -> OSError:
  failed = [pair for pair in failed if not isinstance(pair[1], ValueError)]
  image, error = failed[0]
  reason = str(error) or f"{image} does not fit into memory"
  return OSError(
    f"{len(failed)} of {runtime.counted(total, 'image')} cannot be read, the first "
    f"because {reason}. Nothing was prepared."
  )


def warn_about_small_classes(archive: Archive) -> None:
  """Report classes that have a single image: it cannot be trained and evaluated on."""
  labels = [image.label for image in archive.images]
  counts = np.bincount(labels, minlength=len(archive.class_names))
  single = [archive.class_names[i] for i in np.flatnonzero(counts == 1)]
  if len(single) == 1:
    _LOGGER.warning(
      "class %s has a single image, so it appears either in training or in testing, "
      "not both",
      single[0],
    )
  elif single:
    _LOGGER.warning(
      "%d classes have a single image each, so they appear either in training or in "
      "testing, not both: %s",
      len(single),
      ", ".join([*single[:_MAX_SHOWN], *["…"][: len(single) > _MAX_SHOWN]]),
    )


def warn_about_missing_splits(splits: Container[str]) -> None:
  """Report that there are images to train on only.

  Args:
    splits: Names of the splits.
  """
  if "train" in splits and "test" not in splits and "validation" not in splits:
    _LOGGER.warning(
      "there are no images to evaluate on: add a folder (or lines of the CSV file) for "
      "test or validation, or train with --config.dataset.fold=1/5"
    )


def warn_about_duplicates(
  archive: Archive,
  found: Sequence[str],
  splits: Mapping[str, Sequence[int]],
  root: pathlib.Path | None,
) -> None:
  """Report images that are there several times.

  Args:
    archive: The images.
    found: sha256 of each image.
    splits: Positions of the images of each split.
    root: Folder that messages name the images from, if they are files.
  """
  images = archive.images
  first: dict[str, int] = {}
  copies = [(i, first.setdefault(digest, i)) for i, digest in enumerate(found)]
  copies = [(i, j) for i, j in copies if i != j]
  others = [(i, j) for i, j in copies if images[i].label != images[j].label]
  kinds = [
    ("image is a copy of another", "images are copies of others", copies),
    (
      "copy is in another class than the first",
      "copies are in another class than the first",
      others,
    ),
  ]
  for one, other, shared in _shared(found, splits):
    also = f"also in {one}"
    kinds.append(
      (f"image of {other} is {also}", f"images of {other} are {also}", shared)
    )
  for singular, plural, pairs in kinds:
    if pairs:
      i, j = (_described(archive, k, root) for k in pairs[0])
      count = runtime.counted(len(pairs), singular, plural)
      _LOGGER.warning("%s, such as %s and %s", count, i, j)


def _shared(
  found: Sequence[str], splits: Mapping[str, Sequence[int]]
) -> Iterator[tuple[str, str, list[tuple[int, int]]]]:
  """Yield pairs of disjoint splits with pairs of equal images, that of the later first.

  Splits that are repeated at random are left out.
  """
  names = [name for name in ("train", "validation", "test") if name in splits]
  for k, one in enumerate(names):
    seen = {found[j]: j for j in splits[one]}
    for other in names[k + 1 :]:
      pairs = [(i, seen[found[i]]) for i in splits[other] if found[i] in seen]
      yield one, other, [(i, j) for i, j in pairs if i != j]


def _described(archive: Archive, index: int, root: pathlib.Path | None) -> str:
  """Return the path of an image, with the folder of its split, and its class."""
  image = archive.images[index]
  path = image.file if root is None else os.path.relpath(str(image), root)
  return f"{path} ({archive.class_names[image.label]})"


def _inspect(
  image: ArchiveImage, known: Container[str]
) -> tuple[str, Exception | None]:
  """Return the sha256 of an image, and the error if it is broken."""
  try:
    content = image.read()
    digest = hashlib.sha256(content).hexdigest()
    if digest not in known:
      decode(content)
  except (MemoryError, OSError, ValueError) as error:
    return "", error
  return digest, None
