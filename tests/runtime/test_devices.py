import jax
import numpy as np

from pnjax import runtime


def test_padding_repeats_examples_and_masks_them():
  devices = runtime.Devices(jax.devices()[:2])
  batch = {"label": np.arange(5), "image": np.arange(10.0).reshape(5, 2)}
  shards = devices.shard(batch, num_microbatches=2)
  np.testing.assert_array_equal(shards["label"], [[0, 1, 2, 3], [4, 0, 1, 2]])
  np.testing.assert_array_equal(shards["image"][1, 1], batch["image"][0])
  np.testing.assert_array_equal(shards["mask"], [[True] * 4, [True] + [False] * 3])
