"""Records of the images in an archive."""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import pathlib
import stat
from typing import Protocol
import unicodedata

# More than any image that is not refused for the number of its pixels.
MAX_BYTES = 1 << 30
_REVERSING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class ArchiveImage(Protocol):
  """A labelled image of an archive. As a string, it names itself in error messages."""

  @property
  def file(self) -> str:
    """Path in the archive, with `/` on any system."""

  @property
  def label(self) -> int:
    """Index of the class."""

  def read(self) -> bytes:
    """Return the encoded image."""


@dataclasses.dataclass(frozen=True)
class ImageFile:
  """An image of an archive that was unpacked to disk.

  Attributes:
    file: Path in the archive, with `/` on any system.
    label: Index of the class.
    path: Path on disk.
  """

  file: str
  label: int
  path: pathlib.Path

  def __str__(self) -> str:
    return str(self.path)

  def read(self) -> bytes:
    """Return the encoded image; see `read_file`."""
    return read_file(self.path)


def read_file(path: pathlib.Path) -> bytes:
  """Return the contents of a file that may be an image.

  Raises:
    OSError: if it is not an ordinary file, or a huge one.
  """
  status = path.stat()
  if not stat.S_ISREG(status.st_mode):
    raise OSError(f"{path} is a folder, a pipe or a device, expected a file")
  if status.st_size > MAX_BYTES:
    raise OSError(f"{path} has {status.st_size} bytes, expected at most {MAX_BYTES}")
  return path.read_bytes()


@dataclasses.dataclass(frozen=True)
class Archive:
  """The contents of an archive.

  Attributes:
    class_names: Names of the classes, in the order of the labels.
    stored: All images, each once, grouped under the names they are stored under.
    lists: Splits as positions in `images`; the groups of `stored` are the splits if
      empty.
  """

  class_names: tuple[str, ...]
  stored: Mapping[str, Sequence[ArchiveImage]]
  lists: Mapping[str, Sequence[int]] = dataclasses.field(default_factory=dict)

  @property
  def images(self) -> list[ArchiveImage]:
    """All images, in the order in which they are stored."""
    return [image for group in self.stored.values() for image in group]


def printable(text: str) -> str:
  """Return a text without control characters, for messages and terminals."""
  return "".join(repr(c)[1:-1] if is_control(c) else c for c in text)


def is_control(char: str) -> bool:
  """Return whether a character breaks lines, rules terminals or reverses text."""
  return unicodedata.category(char) in ("Cc", "Zl", "Zp") or char in _REVERSING
