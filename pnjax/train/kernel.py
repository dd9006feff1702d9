"""The exact kernel ⟨Ψᵢ, Ψⱼ⟩ of pooled vectors, which need not fit in memory together.

For up to `MAX_PICTURES` a classifier on the n×n kernel needs no weights of the
length of Ψ, of which there are millions at the full 2048 channels.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import mmap
import os
import pathlib
import re

import jax
import jax.numpy as jnp
import numpy as np

from pnjax.train.progress import Progress

# More pictures to learn from than this are for a softmax layer.
MAX_PICTURES = 10_000

_BATCH = 8
# Vectors that are multiplied at once with those that stay in memory.
_ROWS = 128
# Bytes that are left for all but the vectors, unless that were more than half.
_RESERVED = 3 * 10**9
# Says what is available.
_MEMORY_INFO = pathlib.Path("/proc/meminfo")
# Of control groups, versions 2 and 1.
_MEMORY_LIMITS = (
  pathlib.Path("/sys/fs/cgroup/memory.max"),
  pathlib.Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def pairwise(
  pool: Callable[[jax.Array], jax.Array],
  maps: Sequence[np.ndarray],
  num_columns: int,
  label: str = "kernel",
  memory: int | None = None,
) -> np.ndarray:
  """Returns the inner products of all pooled vectors with the first of them.

  Args:
    pool: from maps `[b, ...]` to vectors `[b, D]`; is compiled.
    maps: of n pictures, read by slices.
    num_columns: m; those to be learned from come first.
    label: stands before the progress.
    memory: bytes that vectors may take; most of what is available if None.

  Returns:
    Array `[n, m]`.
  """
  pool = jax.jit(pool)
  kernel = np.zeros((len(maps), num_columns), np.float32)
  length = jax.eval_shape(pool, jnp.asarray(maps[:1])).shape[-1]
  fitting = (memory or _spare_memory()) // (4 * length) - _ROWS

  def vectors(start: int, stop: int, progress: Progress) -> np.ndarray:
    out = _empty(stop - start, length)
    rest, pooled = out, None
    for i in range(start, stop, _BATCH):
      batch = maps[i : min(i + _BATCH, stop)]
      # One at a time: decompositions beside each other were seen to hang on a CPU.
      previous = jax.block_until_ready(pooled)
      pooled = _padded(pool, batch)
      if previous is not None:  # Is copied while the next ones are pooled.
        rest[:_BATCH], rest = previous, rest[_BATCH:]
      progress.advance(len(batch))
    rest[:] = pooled[: len(rest)]
    return out

  blocks = list(_blocks(0, num_columns, max(fitting, _ROWS)))
  # Each block is pooled, and all that comes behind it once more.
  num_pooled = sum(len(maps) - start for start, _ in blocks)
  with Progress(0, num_pooled, label) as progress:
    for start, stop in blocks:
      columns = vectors(start, stop, progress)
      kernel[start:stop, start:stop] = columns @ columns.T
      for first, last in _blocks(stop, len(maps), _ROWS):
        others = vectors(first, last, progress)
        kernel[first:last, start:stop] = others @ columns.T
      kernel[start:stop, stop:] = kernel[stop:num_columns, start:stop].T
  return kernel


def _spare_memory() -> int:
  """Returns most of what is available on the machine, or in the container."""
  memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
  with contextlib.suppress(OSError):  # Not Linux.
    available = re.search(r"MemAvailable: *(\d+) kB", _MEMORY_INFO.read_text())
    memory = 1024 * int(available[1])
  for path in _MEMORY_LIMITS:
    with contextlib.suppress(OSError, ValueError):  # No such file, or "max".
      memory = min(memory, int(path.read_text()))
  return max(memory // 2, memory - _RESERVED)


def _empty(count: int, length: int) -> np.ndarray:
  """Returns memory for vectors, apart from what a process keeps for other things.

  See `devices.keep_freed_memory`.
  """
  flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
  buffer = mmap.mmap(-1, 4 * count * length, flags=flags)
  if hasattr(mmap, "MADV_HUGEPAGE"):  # Linux: fewer pages to be made.
    buffer.madvise(mmap.MADV_HUGEPAGE)
  return np.frombuffer(buffer, np.float32).reshape(count, length)


def _padded(pool, batch: np.ndarray) -> jax.Array:
  """Pools a batch that may be short, in the one shape that is compiled."""
  missing = _BATCH - len(batch)
  full = np.concatenate([batch, np.zeros((missing, *batch.shape[1:]), batch.dtype)])
  return pool(jnp.asarray(full))


def _blocks(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
  for first in range(start, stop, size):
    yield first, min(first + size, stop)
