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

import numpy as np
import tqdm

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


def digests(archive: Archive, known: Container[str], progress: bool) -> list[str]:
  """Return the sha256 of each image, after checking that none is broken.

  Args:
    archive: Images to read.
    known: Digests of images that were checked before.
    progress: Whether to show a progress bar.

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
    raise ValueError(
      f"{len(broken)} of {len(images)} images are broken; get them again, or remove "
      "those that no list names. Nothing was prepared.\n" + "\n".join(broken)
    )
  return list(found)


def _unreadable(
  failed: Sequence[tuple[ArchiveImage, Exception]], total: int
) -> OSError:
  failed = [pair for pair in failed if not isinstance(pair[1], ValueError)]
  image, error = failed[0]
  reason = str(error) or f"{image} does not fit into memory"
  return OSError(
    f"{len(failed)} of {total} images cannot be read, the first because {reason}. "
    "Nothing was prepared."
  )


def warn_about_small_classes(archive: Archive) -> None:
  """Report classes that have a single image: it cannot be trained and evaluated on."""
  labels = [image.label for image in archive.images]
  counts = np.bincount(labels, minlength=len(archive.class_names))
  single = [archive.class_names[i] for i in np.flatnonzero(counts == 1)]
  if single:
    _LOGGER.warning(
      "%d classes have a single image, which is either trained or evaluated on: %s",
      len(single),
      ", ".join([*single[:_MAX_SHOWN], *["…"][: len(single) > _MAX_SHOWN]]),
    )


def warn_about_duplicates(
  archive: Archive, found: Sequence[str], splits: Mapping[str, Sequence[int]]
) -> None:
  """Report images that are there several times.

  Args:
    archive: The images.
    found: sha256 of each image.
    splits: Positions of the images of each split.
  """
  images = archive.images
  first: dict[str, int] = {}
  copies = [(i, first.setdefault(digest, i)) for i, digest in enumerate(found)]
  copies = [(i, j) for i, j in copies if i != j]
  others = [(i, j) for i, j in copies if images[i].label != images[j].label]
  _warn(archive, "images are copies of others", copies)
  _warn(archive, "copies are in another class than the first", others)
  for one, other, shared in _shared(found, splits):
    _warn(archive, f"images of {other} are also in {one}", shared)


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


def _warn(archive: Archive, what: str, pairs: Sequence[tuple[int, int]]) -> None:
  if not pairs:
    return
  one, other = (archive.images[i] for i in pairs[0])
  _LOGGER.warning(
    "%d %s, such as %s (%s) and %s (%s)",
    len(pairs),
    what,
    one.file,
    archive.class_names[one.label],
    other.file,
    archive.class_names[other.label],
  )


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
