"""Pooled vectors of many images, which need not fit in memory together.

At the full 2048 channels of a ResNet-50, each has 2.1 million entries.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
import dataclasses
import mmap

import numpy as np

from pnjax import runtime

# Number of vectors that are multiplied at once.
BLOCK_ROWS = 128


@dataclasses.dataclass(frozen=True, eq=False)
class PooledVectors:
  """Pooled vectors of unit length, computed when they are asked for.

  Attributes:
    pool: Function from rows to their vectors, in batches `[b, D]` and in order.
    rows: Rows of these vectors among all that `pool` knows.
    length: Number D of entries of a vector.
    values: The vectors themselves, `[n, D]`, if they are kept in memory.
  """

  pool: Callable[[np.ndarray], Iterable[np.ndarray]]
  rows: np.ndarray
  length: int
  values: np.ndarray | None = None

  def __len__(self) -> int:
    return len(self.rows)

  @property
  def num_bytes(self) -> int:
    """Memory that all vectors would take."""
    return 4 * len(self) * self.length

  def subset(self, positions: np.ndarray) -> PooledVectors:
    """Return the vectors at some positions."""
    values = None if self.values is None else self.values[positions]
    return dataclasses.replace(self, rows=self.rows[positions], values=values)

  def stored(self, progress: runtime.Progress) -> PooledVectors:
    """Return the same vectors, kept in memory."""
    return dataclasses.replace(self, values=self.matrix(0, len(self), progress))

  def matrix(self, start: int, stop: int, progress: runtime.Progress) -> np.ndarray:
    """Return the vectors from `start` to `stop` as the rows of a matrix."""
    if self.values is not None:
      progress.advance(stop - start)
      return self.values[start:stop]
    out = _empty(stop - start, self.length)
    filled = 0
    for batch in self.pool(self.rows[start:stop]):
      out[filled : filled + len(batch)] = batch
      filled += len(batch)
      progress.advance(len(batch))
    assert filled == len(out), (filled, len(out))
    return out

  def blocks(
    self, progress: runtime.Progress, start: int = 0
  ) -> Iterator[tuple[int, np.ndarray]]:
    """Yield all vectors from `start` on as small matrices, with their positions."""
    for first in range(start, len(self), BLOCK_ROWS):
      last = min(first + BLOCK_ROWS, len(self))
      yield first, self.matrix(first, last, progress)


def _empty(count: int, length: int) -> np.ndarray:
  """Return memory that is returned to the system even if freed memory is kept.

  See `runtime.keep_freed_memory`.
  """
  flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
  buffer = mmap.mmap(-1, 4 * count * length, flags=flags)
  if hasattr(mmap, "MADV_HUGEPAGE"):  # Linux: fewer pages to create.
    buffer.madvise(mmap.MADV_HUGEPAGE)
  return np.frombuffer(buffer, np.float32).reshape(count, length)
