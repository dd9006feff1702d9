"""The exact kernel ⟨Ψᵢ, Ψⱼ⟩ of pooled vectors, which need not fit in memory together.

For up to ten thousand pictures a classifier on the n×n kernel needs no weights of the
length of Ψ, of which there are millions at the full 2048 channels.
"""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

# Bytes that two blocks of pooled vectors may take.
_MEMORY = 6 << 30
_BATCH = 8


def pairwise(
  pool: Callable[[jax.Array], jax.Array],
  maps: Sequence[np.ndarray],
  num_columns: int,
  progress: Callable[[int], None] = lambda count: None,
) -> np.ndarray:
  """Returns the inner products of all pooled vectors with the first of them.

  Args:
    pool: from maps `[b, ...]` to vectors `[b, D]`; is compiled.
    maps: of n pictures, read by slices.
    num_columns: m; those to be learned from come first.
    progress: is told how many vectors were pooled.

  Returns:
    Array `[n, m]`.
  """
  pool = jax.jit(pool)
  kernel = np.zeros((len(maps), num_columns), np.float32)
  length = jax.eval_shape(pool, jnp.asarray(maps[:1])).shape[-1]
  size = max(_MEMORY // 2 // (4 * length), 1)

  def vectors(start: int, stop: int) -> np.ndarray:
    out = np.empty((stop - start, length), np.float32)
    for i in range(start, stop, _BATCH):
      batch = maps[i : min(i + _BATCH, stop)]
      out[i - start : i - start + len(batch)] = _padded(pool, batch)
      progress(len(batch))
    return out

  for columns in _blocks(num_columns, size):
    right = vectors(*columns)
    for rows in _blocks(len(maps), size):
      if rows[1] <= columns[0]:
        continue  # Was written as the transpose of another block.
      left = right if rows == columns else vectors(*rows)
      block = left @ right.T
      kernel[slice(*rows), slice(*columns)] = block
      inside = min(rows[1], num_columns)
      if inside > rows[0]:
        kernel[slice(*columns), rows[0] : inside] = block[: inside - rows[0]].T
  return kernel


def _padded(pool, batch: np.ndarray) -> np.ndarray:
  """Pools a batch that may be short, in the one shape that is compiled."""
  missing = _BATCH - len(batch)
  full = np.concatenate([batch, np.zeros((missing, *batch.shape[1:]), batch.dtype)])
  return np.asarray(pool(jnp.asarray(full)))[: len(batch)]


def _blocks(count: int, size: int) -> Iterator[tuple[int, int]]:
  for start in range(0, count, size):
    yield start, min(start + size, count)
