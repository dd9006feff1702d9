"""Number of threads that several CPU devices need."""

import os
import re

import jax


def reserve() -> None:
  """Let XLA start enough threads for the CPU devices that were asked for.

  On a CPU, `jnp.linalg.eigh` hands parts of a batch to XLA's pool of threads and waits
  for them. It often runs in a thread of this pool itself, which is then blocked. The
  pool has a thread per core or per device, whichever is more, so that devices that
  decompose matrices at the same time can block all of it: the program hangs.

  A device runs up to two programs at a time, one on all devices and one of its own,
  which block a thread each. One more thread is enough to go on. Others would only slow
  down the decompositions, whose calls to OpenBLAS wait for each other, so the pool is
  left alone where it is large enough.

  XLA reads the variables when JAX starts to use the CPU; later calls have no effect. A
  value that the user has set is kept.
  """
  num_devices = _num_devices()
  num_threads = 2 * num_devices + 1
  if num_devices == 1 or num_threads <= _num_cores():
    return
  if "NPROC" not in os.environ:  # XLA prefers the other one to it.
    os.environ.setdefault("PJRT_NPROC", str(num_threads))


def _num_devices() -> int:
  number = jax.config.jax_num_cpu_devices  # type: ignore[attr-defined]
  if number > 0:
    return number
  flags = os.environ.get("XLA_FLAGS", "")
  found = re.findall(r"--xla_force_host_platform_device_count=(\d+)", flags)
  return int(found[-1]) if found else 1


def _num_cores() -> int:
  if hasattr(os, "sched_getaffinity"):  # Linux, where a process may have some of them.
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1
