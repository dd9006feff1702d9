"""Steps on all devices of all hosts; the one file that knows about devices."""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import ctypes
import functools
import sys
from typing import Any

import jax
from jax import lax
from jax.experimental import multihost_utils
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec
import numpy as np

# Name of the axis of devices, for batch norm that is to be synchronised.
AXIS = "batch"

# Options of glibc's `mallopt`, by which freed memory is never given back
# (M_TRIM_THRESHOLD), no block is mapped apart (M_MMAP_MAX), and all threads share one
# heap (M_ARENA_MAX): others cannot hold large blocks, which are mapped apart after all.
_KEEP_FREED = ((-1, -1), (-4, 0), (-8, 1))


def keep_freed_memory() -> None:
  """Lets the process keep memory that it freed, for its next step on a CPU.

  On a CPU XLA allocates the temporaries of every step anew. glibc gives blocks of their
  size back to the system, which then has to clear each page once more when it is
  touched: a fifth of a training step of ResNet-50. What the process once took stays
  with it until its end. Call it before JAX starts its threads; without glibc it does
  nothing.
  """
  if sys.platform != "linux":
    return
  mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
  if mallopt is not None:
    for option, value in _KEEP_FREED:
      mallopt(option, value)


class Devices:
  """Devices that share the work: each host gives its part of a batch.

  Attributes:
    local: devices of this host.
    host: number of this host, from 0.
    num_hosts: number of hosts.
  """

  def __init__(self, devices: Sequence[jax.Device] | None = None):
    """Takes the given devices, or all there are."""
    self._all = list(devices) if devices is not None else jax.devices()
    self.host = jax.process_index()
    self.local = [d for d in self._all if d.process_index == self.host]
    self.num_hosts = len({d.process_index for d in self._all})
    mesh = Mesh(np.array(self.local), (AXIS,))
    self._everywhere = NamedSharding(mesh, PartitionSpec())
    self._apart = NamedSharding(mesh, PartitionSpec(AXIS))

  @property
  def is_first(self) -> bool:
    """Whether this host is the one that writes files and speaks."""
    return self.host == 0

  @property
  def description(self) -> str:
    """How many devices of which kind on how many hosts, in words."""
    kind = self._all[0].device_kind
    hosts = f" on {self.num_hosts} hosts" if self.num_hosts > 1 else ""
    return f"{len(self._all)} × {kind}{hosts}"

  def parallel(self, step: Callable, *, donate: bool) -> Callable:
    """Returns `step(carry, batch, total)` as a function of carry and batch.

    The carry is the same on all devices, before and after; the batch is what
    `shard` returned, and the other output has the same leading axis.

    Args:
      step: a pure function that returns a new carry, and results per example.
      donate: whether the memory of the old carry may be used for the new one.
    """
    total = functools.partial(lax.psum, axis_name=AXIS)
    return jax.pmap(
      lambda carry, batch: step(carry, batch, total),
      axis_name=AXIS,
      in_axes=(None, 0),
      out_axes=(None, 0),
      devices=self._all,
      donate_argnums=(0,) if donate else (),
    )

  def replicate(self, tree: Any) -> Any:
    """Puts a tree of arrays on every local device."""
    return jax.device_put(tree, self._everywhere)

  def shard(self, batch: Mapping[str, np.ndarray], parts: int = 1) -> dict:
    """Spreads the examples of a batch over the local devices.

    Args:
      batch: arrays `[b, ...]`. If it has no `mask`, all of its examples count.
      parts: the examples of a device are to be a multiple of it.

    Returns:
      Arrays `[D, b/D, ...]`, padded with masked examples where b is no multiple.
      These are the first ones again: statistics of batch norm do not know masks.
    """
    batch = dict(batch)
    size = len(batch["label"])
    batch.setdefault("mask", np.ones(size, bool))
    missing = -size % (len(self.local) * parts)
    if missing:
      again = np.arange(size + missing) % size
      batch = {name: np.asarray(x)[again] for name, x in batch.items()}
      batch["mask"][size:] = False
    return {
      name: jax.device_put(self._spread(np.asarray(x)), self._apart)
      for name, x in batch.items()
    }

  def _spread(self, x: np.ndarray) -> np.ndarray:
    return x.reshape(len(self.local), -1, *x.shape[1:])

  def gather(self, x: np.ndarray) -> np.ndarray:
    """Returns the rows of all hosts, one host after the other."""
    if self.num_hosts == 1:
      return x
    return multihost_utils.process_allgather(jnp.asarray(x), tiled=True)

  def wait(self) -> None:
    """Waits until all hosts are here, and so for what the first one wrote."""
    if self.num_hosts > 1:
      multihost_utils.sync_global_devices("wait")

  def agree(self, flag: bool) -> bool:
    """Returns whether any host says yes, the same on all of them."""
    return bool(np.any(self.gather(np.array([flag]))))


def fetch(tree: Any) -> Any:
  """Returns a replicated tree as NumPy arrays."""
  return jax.tree.map(lambda x: np.asarray(x.addressable_data(0)), tree)


def connect(coordinator: str | None, num_hosts: int | None, host: int | None) -> None:
  """Joins the other hosts of a run; does nothing if there are none.

  Args:
    coordinator: `address:port` of host 0; on clusters that JAX knows, `"auto"`.
    num_hosts: number of hosts, where it is not known from the cluster.
    host: number of this host, likewise.
  """
  if coordinator is None:
    if num_hosts is not None or host is not None:
      raise ValueError("--num_hosts and --host need --coordinator, which is missing.")
    return
  address = None if coordinator == "auto" else coordinator
  jax.distributed.initialize(address, num_hosts, host)
