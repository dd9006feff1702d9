import numpy as np
import pytest

from pnjax import probe
from pnjax import runtime
from pnjax.probe import _frozen
from pnjax.probe import _kernel
from pnjax.probe import _vectors


@pytest.fixture
def small_blocks(monkeypatch):
  monkeypatch.setattr(_kernel, "BLOCK_ROWS", 3)
  monkeypatch.setattr(_vectors, "BLOCK_ROWS", 3)


def make_vectors(values):
  """Vectors that come in batches of two."""

  def pool(rows):
    for start in range(0, len(rows), 2):
      yield values[rows[start : start + 2]]

  return probe.PooledVectors(pool, np.arange(len(values)), values.shape[1])


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("memory", [None, 4 * 24 * 8])
@pytest.mark.parametrize("num_columns", [1, 13, 21, None])
def test_blocks_make_the_whole_kernel(rng, small_blocks, memory, num_columns, stored):
  values = rng.standard_normal((21, 24)).astype(np.float32)
  vectors = make_vectors(values)
  if stored:
    vectors = vectors.stored(runtime.Progress(0, 21, quiet=True))
  np.testing.assert_allclose(
    probe.pooled_kernel(vectors, num_columns, memory=memory),
    values @ values[:num_columns].T,
    rtol=1e-5,
    atol=1e-6,
  )


def test_a_subset_has_the_vectors_at_its_positions(rng):
  values = rng.standard_normal((9, 4)).astype(np.float32)
  progress = runtime.Progress(0, 9, quiet=True)
  some = np.array([7, 2, 2])
  for vectors in (make_vectors(values), make_vectors(values).stored(progress)):
    subset = vectors.subset(some)
    assert (len(subset), subset.num_bytes) == (3, 3 * 4 * 4)
    np.testing.assert_array_equal(subset.matrix(1, 3, progress), values[[2, 2]])


def test_feature_maps_are_pooled_in_order(rng):
  feature_maps = rng.standard_normal((21, 2, 3, 4)).astype(np.float32)
  vectors = _frozen.pool_feature_maps(
    lambda maps: maps.reshape(len(maps), -1) ** 2, feature_maps
  )
  assert vectors.length == 24
  np.testing.assert_allclose(
    vectors.matrix(1, 20, runtime.Progress(0, 19, quiet=True)),
    feature_maps.reshape(21, -1)[1:20] ** 2,
    rtol=1e-6,
  )
