import jax.numpy as jnp
import numpy as np
import pytest

from pnjax.probe import _kernel


def pool(feature_maps):
  return jnp.sqrt(jnp.abs(feature_maps.reshape(feature_maps.shape[0], -1)))


@pytest.mark.parametrize("memory", [None, 4 * 24 * 8])
@pytest.mark.parametrize("num_columns", [1, 13, 21])
def test_blocks_make_the_whole_kernel(rng, monkeypatch, memory, num_columns):
  monkeypatch.setattr(_kernel, "_ROWS", 3)
  feature_maps = rng.standard_normal((21, 2, 3, 4)).astype(np.float32)
  vectors = np.asarray(pool(feature_maps))
  np.testing.assert_allclose(
    _kernel.pooled_kernel(pool, feature_maps, num_columns, memory=memory),
    vectors @ vectors[:num_columns].T,
    rtol=1e-5,
  )
