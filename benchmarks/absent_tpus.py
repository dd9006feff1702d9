"""TPUs that are not here, which programs can be compiled for all the same.

It needs the compiler, `pip install 'jax[tpu]'`, and `JAX_PLATFORMS=cpu`, which keeps
JAX from looking for a TPU.
"""

import importlib.metadata
import importlib.util
import os

import jax
from jax.experimental import topologies

NAME = "TPU v5e"
GIGABYTES = 16  # Memory of one chip.
_TOPOLOGY = "v5e:2x4"
_MAX_CHIPS = 8


def has_compiler() -> bool:
  """Return whether programs can be compiled for a TPU."""
  return importlib.util.find_spec("libtpu") is not None


def compiler_version() -> str:
  """Return the version of the compiler, libtpu."""
  return importlib.metadata.version("libtpu")


def devices(count: int) -> list[jax.Device]:
  """Return some chips of a TPU v5e.

  Args:
    count: Number of chips, up to 8.
  """
  if not 1 <= count <= _MAX_CHIPS:
    raise ValueError(f"`count` is {count}, expected 1 to {_MAX_CHIPS}.")
  # These keep the compiler from asking a machine that does not exist.
  os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
  os.environ.setdefault("TPU_ACCELERATOR_TYPE", f"v5litepod-{_MAX_CHIPS}")
  os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
  topology = topologies.get_topology_desc(platform="tpu", topology_name=_TOPOLOGY)
  return topology.devices[:count]
