"""Whether a batch fits into memory, before a step is taken."""

import dataclasses
import math
from typing import Any

import jax
import ml_collections

from pnjax import runtime
from pnjax.train._inputs import Inputs
from pnjax.train._state import TrainState

# Bytes of a number of a batch of images: uint8, and float32 as input of the network.
_BYTES_PER_NUMBER = 1 + 4


def check_images(config: ml_collections.ConfigDict, num_hosts: int) -> None:
  """Raise ValueError if the images of a batch alone do not fit; nothing is compiled.

  Args:
    config: Run config.
    num_hosts: Number of hosts.
  """
  dataset, batch_size = config.dataset, config.train.batch_size
  if config.train.cache_features:
    return
  numbers = 3 * dataset.num_crops * dataset.image_size**2
  share = math.ceil(batch_size / (num_hosts * jax.local_device_count()))
  needed, available = share * numbers * _BYTES_PER_NUMBER, _available()
  if needed > available:
    largest = batch_size * available // needed
    raise ValueError(
      f"train.batch_size is {batch_size}: images of {dataset.image_size} × "
      f"{dataset.image_size} take {_gigabytes(needed)} on each device, which has "
      f"{_gigabytes(available)}; expected "
      + (f"at most {largest}." if largest else "smaller images.")
    )


def check_step(step: Any, state: TrainState, inputs: Inputs) -> None:
  """Raise ValueError if a step of training needs more memory than a device has.

  It is compiled for that, and need not be compiled again. Only one image is read. With
  several hosts nothing is checked.

  Args:
    step: Step of training, from `runtime.Devices.parallelize`.
    state: State before the first step, on all devices.
    inputs: Examples to train on.
  """
  if inputs.devices.num_hosts > 1:
    return  # `jax.pmap` then lowers arrays only, and these are shapes.
  batch = _abstract_batch(inputs)
  _check_program(step.lower(state, batch).compile().memory_analysis())


def _abstract_batch(inputs: Inputs) -> dict[str, jax.ShapeDtypeStruct]:
  """Return the shapes of a batch of training, on the devices of a single host."""
  devices, train = inputs.devices, inputs.config.train
  config = inputs.config.copy_and_resolve_references()
  config.train.batch_size = 1
  single = next(iter(dataclasses.replace(inputs, config=config).train_batches()))
  share = train.batch_size / len(devices.local)
  count = train.num_microbatches * math.ceil(share / train.num_microbatches)
  return {
    name: jax.ShapeDtypeStruct(
      (x.shape[0], count, *x.shape[2:]), x.dtype, sharding=x.sharding
    )
    for name, x in devices.shard(single).items()
  }


def _check_program(stats: Any) -> None:
  if stats is None:  # The compiler does not know.
    return
  # Results that take the place of arguments, and the arguments, are there already.
  results = stats.output_size_in_bytes - stats.alias_size_in_bytes
  needed, available = stats.temp_size_in_bytes + results, _available()
  if needed > available:
    raise ValueError(
      f"a training step takes {_gigabytes(needed)} on each device, which has "
      f"{_gigabytes(available)}. A smaller train.batch_size or dataset.image_size, a "
      "larger train.num_microbatches, or backbone.remat=True needs less."
    )


def _available() -> int:
  """Return the bytes that each device of this host can have."""
  stats = jax.local_devices()[0].memory_stats()
  if stats and "bytes_limit" in stats:
    return stats["bytes_limit"] - stats.get("bytes_in_use", 0)
  # CPUs share the memory of the host.
  return runtime.available_memory() // jax.local_device_count()


def _gigabytes(count: int) -> str:
  return f"{count / 1e9:.3g} GB"
