"""The exact kernel ⟨Ψᵢ, Ψⱼ⟩ of pooled vectors.

For up to `MAX_ROWS` vectors, a classifier on the n×n kernel needs no weights of the
length of Ψ, which has millions of entries at the full 2048 channels.
"""

from collections.abc import Iterator

import numpy as np

from pnjax import runtime
from pnjax.probe._vectors import BLOCK_ROWS
from pnjax.probe._vectors import PooledVectors

# Number of vectors to train on up to which the kernel is the way to go.
MAX_ROWS = 10_000


def pooled_kernel(
  vectors: PooledVectors,
  num_columns: int | None = None,
  label: str = "kernel",
  memory: int | None = None,
) -> np.ndarray:
  """Return the inner products of all pooled vectors with the first of them.

  Args:
    vectors: Pooled vectors of n images. Those to train on come first.
    num_columns: Number m of vectors to train on; all if None.
    label: Name of the work in the progress display.
    memory: Bytes that vectors may take; most of the available memory if None.

  Returns:
    Kernel `[n, m]`.
  """
  num_rows = len(vectors)
  num_columns = num_rows if num_columns is None else num_columns
  kernel = np.zeros((num_rows, num_columns), np.float32)
  fitting = (memory or runtime.spare_memory()) // (4 * vectors.length) - BLOCK_ROWS
  columns_at_once = max(fitting, BLOCK_ROWS) if vectors.values is None else num_columns
  blocks = list(_blocks(num_columns, columns_at_once))
  # Each block is pooled, and everything after it once more.
  num_pooled = sum(num_rows - start for start, _ in blocks)
  with runtime.Progress(0, num_pooled, label) as progress:
    for start, stop in blocks:
      columns = vectors.matrix(start, stop, progress)
      kernel[start:stop, start:stop] = columns @ columns.T
      for first, others in vectors.blocks(progress, start=stop):
        kernel[first : first + len(others), start:stop] = others @ columns.T
      kernel[start:stop, stop:] = kernel[stop:num_columns, start:stop].T
  return kernel


def _blocks(stop: int, size: int) -> Iterator[tuple[int, int]]:
  for first in range(0, stop, size):
    yield first, min(first + size, stop)
