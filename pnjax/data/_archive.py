"""Records of the images in an archive."""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import pathlib
from typing import Protocol


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
    """Return the encoded image."""
    return self.path.read_bytes()


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
