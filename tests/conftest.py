"""Strict JAX settings and arrays that the tests share."""

import os

os.environ["XLA_FLAGS"] = (
  os.environ.get("XLA_FLAGS", "")
  + " --xla_force_host_platform_device_count=2"
  # Compiles in half of the time; what the tests run is small.
  + " --xla_backend_optimization_level=0"
)

import jax
import numpy as np
import pytest

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
