import jax.numpy as jnp
import numpy as np
import pytest

from pnjax.train import kernel


def pool(maps):
  return jnp.sqrt(jnp.abs(maps.reshape(maps.shape[0], -1)))


@pytest.mark.parametrize("memory", [None, 4 * 24 * 8])
@pytest.mark.parametrize("num_columns", [1, 13, 21])
def test_blocks_make_the_whole_kernel(rng, monkeypatch, memory, num_columns):
  monkeypatch.setattr(kernel, "_ROWS", 3)
  maps = rng.standard_normal((21, 2, 3, 4)).astype(np.float32)
  vectors = np.asarray(pool(maps))
  np.testing.assert_allclose(
    kernel.pairwise(pool, maps, num_columns, memory=memory),
    vectors @ vectors[:num_columns].T,
    rtol=1e-5,
  )


def test_a_container_may_have_less_memory_than_the_machine(tmp_path, monkeypatch):
  unlimited, limited = tmp_path / "unlimited", tmp_path / "limited"
  unlimited.write_text("max\n")
  limited.write_text("4096\n")
  absent = tmp_path / "absent"
  monkeypatch.setattr(kernel, "_MEMORY_LIMITS", (absent, unlimited))
  assert kernel._spare_memory() > 4096
  monkeypatch.setattr(kernel, "_MEMORY_LIMITS", (absent, limited))
  assert kernel._spare_memory() == 2048


def test_memory_that_others_use_is_not_taken(tmp_path, monkeypatch):
  info = tmp_path / "meminfo"
  info.write_text("MemTotal:       20000000 kB\nMemAvailable:   10000000 kB\n")
  monkeypatch.setattr(kernel, "_MEMORY_INFO", info)
  monkeypatch.setattr(kernel, "_MEMORY_LIMITS", ())
  assert kernel._spare_memory() == 10_240_000_000 - 3_000_000_000
