"""Strict JAX settings, and fixtures that several packages of tests share."""

import os

os.environ["XLA_FLAGS"] = (
  os.environ.get("XLA_FLAGS", "")
  + " --xla_force_host_platform_device_count=2"
  # These make compilation several times faster; the programs of the tests are small.
  + " --xla_backend_optimization_level=0"
  + " --xla_cpu_use_fusion_emitters=false"
  + " --xla_cpu_parallel_codegen_split_count=1"
)

import jax
import numpy as np
import pytest

from tests import small_runs

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def rng():
  return np.random.default_rng(0)


@pytest.fixture
def x64():
  """Runs the test in float64."""
  with jax.enable_x64(True):
    yield


@pytest.fixture(scope="session")
def compilation_cache(tmp_path_factory):
  """Folder of compiled programs, which all workers of a session share."""
  folder = tmp_path_factory.getbasetemp()
  if "PYTEST_XDIST_WORKER" in os.environ:
    folder = folder.parent
  settings = {
    "jax_compilation_cache_dir": str(folder / "compiled"),
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
  }
  before = {name: getattr(jax.config, name) for name in settings}
  for name, value in settings.items():
    jax.config.update(name, value)
  yield settings["jax_compilation_cache_dir"]
  for name, value in before.items():
    jax.config.update(name, value)


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory):
  """A prepared folder of small images in three classes."""
  return small_runs.prepare(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="session")
def alexnet_weights(tmp_path_factory):
  """A file of random weights of AlexNet."""
  return small_runs.write_alexnet(tmp_path_factory.mktemp("weights"))


@pytest.fixture
def config(data_dir, compilation_cache):
  """The config of a run that takes a few seconds."""
  return small_runs.make_config(data_dir)


@pytest.fixture
def frozen_config(data_dir, alexnet_weights, compilation_cache):
  """The same for a frozen AlexNet."""
  return small_runs.make_frozen_config(data_dir, alexnet_weights)


@pytest.fixture(scope="session")
def finished_run(data_dir, compilation_cache, tmp_path_factory):
  """The folder of a finished run, which tests only read."""
  workdir = tmp_path_factory.mktemp("finished") / "run"
  small_runs.run(small_runs.make_config(data_dir), workdir)
  return workdir
