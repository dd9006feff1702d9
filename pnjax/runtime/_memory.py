"""Memory of the process and of the machine."""

import contextlib
import ctypes
import os
import pathlib
import re
import sys

# Options of glibc's `mallopt`: never return freed memory to the system
# (M_TRIM_THRESHOLD), never map a block separately (M_MMAP_MAX), and let all threads
# share one heap (M_ARENA_MAX), since the others cannot hold large blocks, which would
# be mapped separately after all.
_KEEP_FREED = ((-1, -1), (-4, 0), (-8, 1))

# Memory that is left for everything else, unless that is more than half.
_RESERVED_BYTES = 3 * 10**9
_MEMORY_INFO = pathlib.Path("/proc/meminfo")
# Limits of control groups, versions 2 and 1.
_MEMORY_LIMITS = (
  pathlib.Path("/sys/fs/cgroup/memory.max"),
  pathlib.Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def keep_freed_memory() -> None:
  """Let the process keep the memory that it frees, for its next step on a CPU.

  On a CPU, XLA allocates the temporaries of every step again. glibc returns blocks of
  that size to the system, which has to clear each page before it is used again; that
  takes a fifth of a training step of ResNet-50. After this call, the process keeps
  what it once allocated. Call it before JAX starts its threads; without glibc it has
  no effect.
  """
  if sys.platform != "linux":
    return
  mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
  if mallopt is not None:
    for option, value in _KEEP_FREED:
      mallopt(option, value)


def available_memory() -> int:
  """Return the memory, in bytes, that the machine or container has left."""
  memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
  with contextlib.suppress(OSError):  # Not Linux.
    available = re.search(r"MemAvailable: *(\d+) kB", _MEMORY_INFO.read_text())
    if available is not None:
      memory = 1024 * int(available[1])
  for path in _MEMORY_LIMITS:
    with contextlib.suppress(OSError, ValueError):  # No such file, or "max".
      memory = min(memory, int(path.read_text()))
  return memory


def spare_memory() -> int:
  """Return most of the memory, in bytes, that the machine or container can spare."""
  memory = available_memory()
  return max(memory // 2, memory - _RESERVED_BYTES)
