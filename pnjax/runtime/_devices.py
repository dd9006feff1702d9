"""Steps on all devices of all hosts: the one file that knows about devices."""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import functools
from typing import Any

import jax
from jax import lax
from jax.experimental import multihost_utils
import jax.numpy as jnp
from jax.sharding import Mesh
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec
import numpy as np

from pnjax import _cpu_threads

# Name of the device axis, which collectives such as synchronised batch norm refer to.
BATCH_AXIS = "batch"


class Devices:
  """The devices that share a batch. Each host supplies its part of it.

  Attributes:
    local: Devices of this host.
    host: Index of this host.
    num_hosts: Number of hosts.
  """

  def __init__(self, devices: Sequence[jax.Device] | None = None):
    """Use the given devices, or all that are available."""
    _cpu_threads.reserve()  # Their number may have been set since pnjax was imported.
    self._all = list(devices) if devices is not None else jax.devices()
    self.host = jax.process_index()
    self.local = [d for d in self._all if d.process_index == self.host]
    self.num_hosts = len({d.process_index for d in self._all})
    mesh = Mesh(np.array(self.local), (BATCH_AXIS,))
    self._replicated = NamedSharding(mesh, PartitionSpec())
    self._sharded = NamedSharding(mesh, PartitionSpec(BATCH_AXIS))

  @property
  def is_first(self) -> bool:
    """Whether this host is the one that writes files and prints."""
    return self.host == 0

  @property
  def description(self) -> str:
    """Number and kind of devices and the number of hosts, in words."""
    kind = self._all[0].device_kind
    hosts = f" on {self.num_hosts} hosts" if self.num_hosts > 1 else ""
    return f"{len(self._all)} × {kind}{hosts}"

  def parallelize(self, step: Callable, *, donate: bool) -> Callable:
    """Return `step(carry, batch, psum)` as a function of the carry and the batch.

    The carry is the same on all devices, before and after the step. The batch is the
    result of `shard`; the other output is stacked over the local devices.

    Args:
      step: Pure function that returns a new carry, and other results of a device.
        `psum` sums a tree of arrays over all devices.
      donate: Whether the memory of the old carry may be reused for the new one.
    """
    psum = functools.partial(lax.psum, axis_name=BATCH_AXIS)
    return jax.pmap(
      lambda carry, batch: step(carry, batch, psum),
      axis_name=BATCH_AXIS,
      in_axes=(None, 0),
      out_axes=(None, 0),
      devices=self._all,
      donate_argnums=(0,) if donate else (),
    )

  def replicate(self, tree: Any) -> Any:
    """Copy a tree of arrays to every local device."""
    return jax.device_put(tree, self._replicated)

  def shard(
    self, batch: Mapping[str, np.ndarray], num_microbatches: int = 1
  ) -> dict[str, jax.Array]:
    """Distributes the examples of a batch over the local devices.

    Args:
      batch: Arrays `[b, ...]`. Without a `mask`, all examples count.
      num_microbatches: Number that must divide the examples of each device.

    Returns:
      Arrays `[D, b/D, ...]`, padded with masked examples where b does not divide.
      The padding repeats the first examples, since batch norm does not know masks.
      `position` numbers the examples of all hosts.
    """
    batch = dict(batch)
    size = len(batch["label"])
    batch.setdefault("mask", np.ones(size, bool))
    missing = -size % (len(self.local) * num_microbatches)
    if missing:
      repeated = np.arange(size + missing) % size
      batch = {name: np.asarray(x)[repeated] for name, x in batch.items()}
      batch["mask"][size:] = False
    count = size + missing
    batch["position"] = self.host * count + np.arange(count, dtype=np.int32)
    return {
      name: jax.device_put(self._split(np.asarray(x)), self._sharded)
      for name, x in batch.items()
    }

  def _split(self, x: np.ndarray) -> np.ndarray:
    return x.reshape(len(self.local), -1, *x.shape[1:])

  def gather(self, x: np.ndarray) -> np.ndarray:
    """Return the rows of all hosts, in the order of the hosts."""
    if self.num_hosts == 1:
      return x
    return multihost_utils.process_allgather(jnp.asarray(x), tiled=True)

  def gather_examples(
    self, values: np.ndarray, index: np.ndarray
  ) -> tuple[np.ndarray, np.ndarray]:
    """Return the values and positions of the examples of all hosts, in their order.

    Args:
      values: Rows of a batch of this host.
      index: Position of each of its examples; negative for padding, which is left out.
    """
    values, index = np.asarray(self.gather(values)), np.asarray(self.gather(index))
    order = np.argsort(index, kind="stable")
    order = order[index[order] >= 0]
    return values[order], index[order]

  def barrier(self) -> None:
    """Wait for all hosts, and so for the files that the first one wrote."""
    if self.num_hosts > 1:
      multihost_utils.sync_global_devices("barrier")

  def any_host(self, flag: bool) -> bool:
    """Return whether the flag is set on any host."""
    return bool(np.any(self.gather(np.array([flag]))))


def to_host(tree: Any) -> Any:
  """Return a replicated tree as NumPy arrays."""
  return jax.tree.map(lambda x: np.asarray(x.addressable_data(0)), tree)
