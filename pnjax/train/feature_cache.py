"""Maps of a frozen backbone, computed once for each picture and kept on disk.

A cache is a folder that belongs to one network, one of its stages and one way to feed
it pictures. `rows` names the picture of each row by its sha256, `maps` has the rows in
float16. A row counts once its name is written, after its numbers.
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

  def _read_rows(self) -> dict[str, int]:
    path, maps = self.folder / "rows", self.folder / "maps"
    if not path.exists():
      return {}
    # A name that was not written to its end has no line break.
    names = path.read_text().split("\n")[:-1]
    written = maps.stat().st_size if maps.exists() else 0
    if written < len(names) * self._row_bytes:
      raise OSError(
        f"the cache {self.folder} is damaged: {maps} has {written} bytes, expected "
        f"{len(names) * self._row_bytes} for {len(names)} pictures. Remove the folder."
      )
    return {name: i for i, name in enumerate(names)}

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
        rows.truncate(sum(len(name) + 1 for name in self._rows))
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
    try:
      maps.write(values[new].tobytes())
      maps.flush()
      os.fsync(maps.fileno())
      rows.write("".join(f"{digests[i]}\n" for i in new))
      rows.flush()
    except OSError as error:
      raise OSError(f"writing to {self.folder} failed: {error}.") from error
    for i in new:
      self._rows[digests[i]] = len(self._rows)

  def read(self, digests: Iterable[str]) -> "CachedMaps":
    """Returns the maps of some pictures, which must be there."""
    try:
      rows = np.array([self._rows[digest] for digest in digests], np.int64)
    except KeyError as error:
      raise ValueError(
        f"the cache {self.folder} lacks the picture with sha256 {error}."
      ) from error
    maps = np.memmap(
      self.folder / "maps", _DTYPE, "r", shape=(len(self._rows), *self.shape)
    )
    return CachedMaps(maps, rows)


class CachedMaps(Sequence):
  """Maps of some pictures, read when they are asked for."""

  def __init__(self, maps: np.ndarray, rows: np.ndarray):
    self._maps, self._rows = maps, rows

  def __len__(self) -> int:
    return len(self._rows)

  def __getitem__(self, index: int | slice | np.ndarray) -> np.ndarray:
    return self._maps[self._rows[index]]


def digest(tree: Any) -> str:
  """Returns the sha256 of a tree of arrays: names, shapes, dtypes and values."""
  state = hashlib.sha256()
  for path, x in jax.tree_util.tree_leaves_with_path(tree):
    x = np.asarray(x)
    state.update(f"{jax.tree_util.keystr(path)} {x.shape} {x.dtype}".encode())
    state.update(np.ascontiguousarray(x).tobytes())
  return state.hexdigest()
