"""The exact kernel ⟨Ψᵢ, Ψⱼ⟩ of pooled vectors, which need not fit in memory together.

For up to `MAX_IMAGES` images, a classifier on the n×n kernel needs no weights of the
length of Ψ, which has millions of entries at the full 2048 channels.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import mmap
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pnjax import runtime

# Number of images to train on up to which the kernel is the way to go.
MAX_IMAGES = 10_000

_BATCH = 8
# Number of vectors that are multiplied at once with those that stay in memory.
_ROWS = 128


def pooled_kernel(
  pool: Callable[[jax.Array], jax.Array],
  feature_maps: Sequence[np.ndarray],
  num_columns: int,
  label: str = "kernel",
  memory: int | None = None,
) -> np.ndarray:
  """Return the inner products of all pooled vectors with the first of them.

  Args:
    pool: Function from feature maps `[b, ...]` to pooled vectors `[b, D]`, which is
      compiled.
    feature_maps: Feature maps of n images, read by slices. Images to train on come
      first.
    num_columns: Number m of images to train on.
    label: Name of the work in the progress display.
    memory: Bytes that vectors may take; most of the available memory if None.

  Returns:
    Kernel `[n, m]`.
  """
  pool = jax.jit(pool)
  kernel = np.zeros((len(feature_maps), num_columns), np.float32)
  length = jax.eval_shape(pool, jnp.asarray(feature_maps[:1])).shape[-1]
  fitting = (memory or runtime.spare_memory()) // (4 * length) - _ROWS

  def vectors(start: int, stop: int, progress: runtime.Progress) -> np.ndarray:
    out = _empty(stop - start, length)
    rest = out
    pooled: Any = None
    for i in range(start, stop, _BATCH):
      batch = np.asarray(feature_maps[i : min(i + _BATCH, stop)])
      # One batch at a time: concurrent decompositions can hang on a CPU.
      previous = jax.block_until_ready(pooled)
      pooled = _padded(pool, batch)
      if previous is not None:  # Copied while the next ones are pooled.
        rest[:_BATCH], rest = previous, rest[_BATCH:]
      progress.advance(len(batch))
    rest[:] = pooled[: len(rest)]
    return out

  blocks = list(_blocks(0, num_columns, max(fitting, _ROWS)))
  # Each block is pooled, and everything after it once more.
  num_pooled = sum(len(feature_maps) - start for start, _ in blocks)
  with runtime.Progress(0, num_pooled, label) as progress:
    for start, stop in blocks:
      columns = vectors(start, stop, progress)
      kernel[start:stop, start:stop] = columns @ columns.T
      for first, last in _blocks(stop, len(feature_maps), _ROWS):
        others = vectors(first, last, progress)
        kernel[first:last, start:stop] = others @ columns.T
      kernel[start:stop, stop:] = kernel[stop:num_columns, start:stop].T
  return kernel


def _empty(count: int, length: int) -> np.ndarray:
  """Return memory that is returned to the system even if freed memory is kept.

  See `runtime.keep_freed_memory`.
  """
  flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
  buffer = mmap.mmap(-1, 4 * count * length, flags=flags)
  if hasattr(mmap, "MADV_HUGEPAGE"):  # Linux: fewer pages to create.
    buffer.madvise(mmap.MADV_HUGEPAGE)
  return np.frombuffer(buffer, np.float32).reshape(count, length)


def _padded(pool, batch: np.ndarray) -> jax.Array:
  """Pools a batch, padded to the one size that is compiled."""
  missing = _BATCH - len(batch)
  full = np.concatenate([batch, np.zeros((missing, *batch.shape[1:]), batch.dtype)])
  return pool(jnp.asarray(full))


def _blocks(start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
  for first in range(start, stop, size):
    yield first, min(first + size, stop)
