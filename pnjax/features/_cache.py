"""Feature maps on disk, computed once for each image.

A cache is a folder for one network, one of its stages and one way to feed it images.
The file `maps` has a row for each image, in float16; `rows` has the name of each row
(the sha256 of the image) and a checksum, which is verified whenever the row is read. A
row counts once its name is written, which happens after its numbers.
"""

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import hashlib
import io
import json
import math
import os
import pathlib
import shutil
from typing import Any
import weakref
import zlib

import numpy as np

from pnjax import runtime

_DTYPE = np.dtype(np.float16)


class FeatureCache:
  """Feature maps by the digests of their images.

  Attributes:
    folder: Folder of the cache.
    shape: Shape of the feature map of an image, `[H, W, d]` or `[P, H, W, d]`.
  """

  def __init__(
    self,
    root: str | os.PathLike,
    key: Mapping[str, Any],
    shape: Sequence[int],
  ):
    """Open a cache, and create it if it does not exist.

    Args:
      root: Folder of all caches.
      key: Everything that a feature map depends on except the image, as JSON.
      shape: Shape of the feature map of an image.
    """
    self._key = {**key, "shape": list(shape)}
    text = json.dumps(self._key, sort_keys=True)
    self.folder = pathlib.Path(root) / hashlib.sha256(text.encode()).hexdigest()[:16]
    self.shape = tuple(shape)
    self._row_bytes = math.prod(shape) * _DTYPE.itemsize
    try:
      self.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
      raise OSError(
        f"features cannot be stored in {root}: {error.strerror}; choose another folder "
        "by $PNJAX_CACHE."
      ) from error
    self._rows: dict[str, tuple[int, int]] = {}
    self.refresh()

  def refresh(self) -> None:
    """Read what other processes have written since."""
    self._rows = self._read_rows()

  def _read_rows(self) -> dict[str, tuple[int, int]]:
    """Return the position and checksum of each row, by name."""
    path, maps = self.folder / "rows", self.folder / "maps"
    try:
      # A line that was not completed has no line break.
      lines = [line.split(" ") for line in path.read_text().split("\n")[:-1]]
      rows = {name: (i, int(crc, 16)) for i, (name, crc) in enumerate(lines)}
      written = maps.stat().st_size if rows else 0
    except FileNotFoundError as error:
      if error.filename == str(path):
        return {}
      raise _damaged(self.folder, f"it has no {maps}") from error
    except ValueError as error:
      raise _damaged(self.folder, f"{path} has unexpected lines") from error
    except OSError as error:
      raise OSError(f"the cache {self.folder} cannot be read: {error}.") from error
    if written < len(lines) * self._row_bytes:
      raise _damaged(
        self.folder,
        f"{maps} has {written} bytes, expected {len(lines) * self._row_bytes} for "
        f"{runtime.counted(len(lines), 'image')}",
      )
    return rows

  def missing(self, digests: Iterable[str]) -> list[int]:
    """Return the positions of images without a feature map, each image once."""
    seen = set(self._rows)
    positions = []
    for i, digest in enumerate(digests):
      if digest not in seen:
        positions.append(i)
        seen.add(digest)
    return positions

  def write(self, batches: Iterable[tuple[Sequence[str], np.ndarray]]) -> None:
    """Append feature maps as they come; those before an interruption are kept.

    Args:
      batches: Digests of some images, and their feature maps `[b, *shape]`.
    """
    with runtime.lock_folder(self.folder):
      self.refresh()
      runtime.write_json(self.folder / "identity.json", self._key)
      with (
        # Without buffers, which would be written again when the files are closed.
        open(self.folder / "maps", "ab", buffering=0) as maps,
        open(self.folder / "rows", "ab", buffering=0) as rows,
      ):
        maps.truncate(len(self._rows) * self._row_bytes)
        rows.truncate(
          sum(len(_line(name, checksum)) for name, (_, checksum) in self._rows.items())
        )
        for digests, values in batches:
          self._append(maps, rows, digests, values)

  def check_space(self, count: int) -> int:
    """Return the bytes that the feature maps of `count` images take.

    Raises:
      OSError: if they do not fit on the disk.
    """
    needed, free = count * self._row_bytes, shutil.disk_usage(self.folder).free
    if needed > free:
      raise OSError(
        f"features of {runtime.counted(count, 'image')} take {needed / 1e9:.1f} GB, "
        f"but {self.folder} has {free / 1e9:.1f} GB left."
      )
    return needed

  def _append(self, maps, rows, digests, values):
    with np.errstate(over="ignore"):  # Infinite values are refused below.
      values = np.asarray(values).astype(_DTYPE)
    if values.shape != (len(digests), *self.shape):
      raise ValueError(
        f"feature maps have shape {values.shape}, expected "
        f"{(len(digests), *self.shape)}."
      )
    if not np.isfinite(values).all():
      raise ValueError("feature maps are not finite in half precision.")
    new = [i for i, digest in enumerate(digests) if digest not in self._rows]
    checksums = {i: zlib.crc32(np.ascontiguousarray(values[i])) for i in new}
    try:
      _write_all(maps, values[new].tobytes())
      os.fsync(maps.fileno())
      _write_all(rows, b"".join(_line(digests[i], checksums[i]) for i in new))
    except OSError as error:
      raise OSError(
        f"writing to {self.folder} failed: {error.strerror}. What is complete is kept; "
        "the same command continues."
      ) from error
    for i in new:
      self._rows[digests[i]] = len(self._rows), checksums[i]

  def read(self, digests: Iterable[str]) -> "CachedFeatureMaps":
    """Return the feature maps of some images, which must be in the cache."""
    try:
      rows = [self._rows[digest] for digest in digests]
    except KeyError as error:
      raise ValueError(
        f"the cache {self.folder} lacks the image with sha256 {error}."
      ) from error
    return CachedFeatureMaps(
      self.folder / "maps", self.shape, np.array(rows, np.int64).reshape(-1, 2)
    )


class CachedFeatureMaps(Sequence):
  """Feature maps of some images, read and verified on access."""

  def __init__(self, path: pathlib.Path, shape: tuple[int, ...], rows: np.ndarray):
    """Select feature maps by their positions and checksums, `[n, 2]`."""
    self._path, self._shape, self._rows = path, shape, rows
    # Not mapped into memory, where a disk that fails would kill the process.
    self._file: int | None = None
    if len(rows):
      with _reading(path):
        self._file = os.open(path, os.O_RDONLY)
      weakref.finalize(self, os.close, self._file)

  def __len__(self) -> int:
    return len(self._rows)

  def __getitem__(  # type: ignore[override]
    self, index: int | slice | np.ndarray
  ) -> np.ndarray:
    rows = self._rows[index]
    maps = np.empty((*rows.shape[:-1], *self._shape), _DTYPE)
    for values, (position, checksum) in zip(
      maps.reshape(-1, *self._shape), rows.reshape(-1, 2), strict=True
    ):
      self._read_into(values, int(position), int(checksum))
    return maps

  def _read_into(self, values: np.ndarray, position: int, checksum: int) -> None:
    assert self._file is not None  # There are rows.
    with _reading(self._path):
      size = os.preadv(self._file, [values.data], position * values.nbytes)
    if size != values.nbytes or zlib.crc32(values.data) != checksum:
      raise _damaged(
        self._path.parent, f"{self._path} does not have the numbers that were written"
      )


@contextlib.contextmanager
def _reading(path: pathlib.Path) -> Iterator[None]:
  try:
    yield
  except OSError as error:
    raise OSError(f"{path} cannot be read: {error.strerror}.") from error


def _write_all(file: io.FileIO, data: bytes) -> None:
  """Write data to a file without a buffer, which may take a part of it at a time."""
  while data:
    data = data[file.write(data) :]


def _line(name: str, checksum: int) -> bytes:
  return f"{name} {checksum:08x}\n".encode()


def _damaged(folder: pathlib.Path, how: str) -> OSError:
  return OSError(f"the cache {folder} is damaged: {how}. Remove the folder.")
