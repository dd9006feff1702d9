"""Maps of a frozen backbone, computed once for each picture and kept on disk.

A cache is a folder that belongs to one network, one of its stages and one way to feed
it pictures. `maps` has a row for each picture, in float16; `rows` has its name, the
picture's sha256, and a checksum of its numbers, which are checked when they are read. A
row counts once its name is written, after its numbers.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import hashlib
import json
import math
import os
import pathlib
import shutil
from typing import Any
import zlib

import jax
import numpy as np

from pnjax.train import locks
from pnjax.train import workdir as workdir_lib

_DTYPE = np.dtype(np.float16)


class FeatureCache:
  """Rows of maps by the digests of their pictures.

  Attributes:
    folder: of the cache.
    shape: of the map of a picture, `[H, W, d]` or `[P, H, W, d]`.
  """

  def __init__(
    self,
    root: str | os.PathLike,
    identity: Mapping[str, Any],
    shape: Sequence[int],
  ):
    """Opens a cache, and makes it if it does not exist.

    Args:
      root: folder of all caches.
      identity: everything but the picture that its map depends on, as JSON.
      shape: of the map of a picture.
    """
    identity = {**identity, "shape": list(shape)}
    text = json.dumps(identity, sort_keys=True)
    self.folder = pathlib.Path(root) / hashlib.sha256(text.encode()).hexdigest()[:16]
    self.shape = tuple(shape)
    self._row_bytes = math.prod(shape) * _DTYPE.itemsize
    try:
      self.folder.mkdir(parents=True, exist_ok=True)
      workdir_lib.write_json(self.folder / "identity.json", identity)
    except OSError as error:
      raise OSError(f"no features can be kept in {root}: {error}.") from error
    self._rows = self._read_rows()

  def _read_rows(self) -> dict[str, tuple[int, int]]:
    """Returns the position and the checksum of each row."""
    path, maps = self.folder / "rows", self.folder / "maps"
    if not path.exists():
      return {}
    try:
      # A line that was not written to its end has no line break.
      lines = [line.split(" ") for line in path.read_text().split("\n")[:-1]]
      rows = {name: (i, int(crc, 16)) for i, (name, crc) in enumerate(lines)}
    except ValueError as error:
      raise _damaged(self.folder, f"{path} has other lines than expected") from error
    written = maps.stat().st_size if maps.exists() else 0
    if written < len(lines) * self._row_bytes:
      raise _damaged(
        self.folder,
        f"{maps} has {written} bytes, expected {len(lines) * self._row_bytes} for "
        f"{len(lines)} pictures",
      )
    return rows

  def missing(self, digests: Iterable[str]) -> list[int]:
    """Returns the positions of pictures whose maps are not there."""
    seen = set(self._rows)
    positions = []
    for i, digest in enumerate(digests):
      if digest not in seen:
        positions.append(i)
        seen.add(digest)
    return positions

  def write(self, batches: Iterable[tuple[Sequence[str], np.ndarray]]) -> None:
    """Appends rows as they come; those before an interruption stay.

    Args:
      batches: digests of some pictures, and their maps `[b, *shape]`.
    """
    with locks.hold(self.folder):
      self._rows = self._read_rows()
      with (
        open(self.folder / "maps", "ab") as maps,
        open(self.folder / "rows", "a") as rows,
      ):
        maps.truncate(len(self._rows) * self._row_bytes)
        rows.truncate(
          sum(len(_line(name, checksum)) for name, (_, checksum) in self._rows.items())
        )
        for digests, values in batches:
          self._append(maps, rows, digests, values)

  def check_space(self, count: int) -> None:
    """Raises OSError if the maps of as many pictures do not fit on the disk."""
    needed, free = count * self._row_bytes, shutil.disk_usage(self.folder).free
    if needed > free:
      raise OSError(
        f"features of {count} pictures take {needed / 1e9:.1f} GB, but {self.folder} "
        f"has {free / 1e9:.1f} GB left."
      )

  def _append(self, maps, rows, digests, values):
    with np.errstate(over="ignore"):  # Infinite values are looked for below.
      values = np.asarray(values).astype(_DTYPE)
    if values.shape != (len(digests), *self.shape):
      raise ValueError(
        f"maps have shape {values.shape}, expected {(len(digests), *self.shape)}."
      )
    if not np.isfinite(values).all():
      raise ValueError("maps are too large for half precision, or not finite.")
    new = [i for i, digest in enumerate(digests) if digest not in self._rows]
    checksums = {i: zlib.crc32(np.ascontiguousarray(values[i])) for i in new}
    try:
      maps.write(values[new].tobytes())
      maps.flush()
      os.fsync(maps.fileno())
      rows.write("".join(_line(digests[i], checksums[i]) for i in new))
      rows.flush()
    except OSError as error:
      raise OSError(f"writing to {self.folder} failed: {error}.") from error
    for i in new:
      self._rows[digests[i]] = len(self._rows), checksums[i]

  def read(self, digests: Iterable[str]) -> "CachedMaps":
    """Returns the maps of some pictures, which must be there."""
    try:
      rows = [self._rows[digest] for digest in digests]
    except KeyError as error:
      raise ValueError(
        f"the cache {self.folder} lacks the picture with sha256 {error}."
      ) from error
    maps = np.memmap(
      self.folder / "maps", _DTYPE, "r", shape=(len(self._rows), *self.shape)
    )
    return CachedMaps(maps, np.array(rows, np.int64).reshape(-1, 2))


class CachedMaps(Sequence):
  """Maps of some pictures, read and checked when they are asked for."""

  def __init__(self, maps: np.memmap, rows: np.ndarray):
    """Keeps what is given: all maps; positions and checksums `[n, 2]` of some."""
    self._maps, self._rows = maps, rows

  def __len__(self) -> int:
    return len(self._rows)

  def __getitem__(self, index: int | slice | np.ndarray) -> np.ndarray:
    rows = self._rows[index]
    maps = self._maps[rows[..., 0]]
    for values, checksum in zip(
      maps.reshape(-1, *self._maps.shape[1:]), np.atleast_1d(rows[..., 1]), strict=True
    ):
      if zlib.crc32(values) != checksum:
        path = pathlib.Path(self._maps.filename)
        raise _damaged(path.parent, f"{path} has other numbers than were written")
    return maps


def _line(name: str, checksum: int) -> str:
  return f"{name} {checksum:08x}\n"


def _damaged(folder: pathlib.Path, how: str) -> OSError:
  return OSError(f"the cache {folder} is damaged: {how}. Remove the folder.")


def digest(tree: Any) -> str:
  """Returns the sha256 of a tree of arrays: names, shapes, dtypes and values."""
  state = hashlib.sha256()
  for path, x in jax.tree_util.tree_leaves_with_path(tree):
    x = np.asarray(x)
    state.update(f"{jax.tree_util.keystr(path)} {x.shape} {x.dtype}".encode())
    state.update(np.ascontiguousarray(x).tobytes())
  return state.hexdigest()
