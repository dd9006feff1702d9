import platform
import subprocess
import sys

import pytest

from pnjax import runtime
from pnjax.runtime import _memory


def test_a_container_may_have_less_memory_than_the_machine(tmp_path, monkeypatch):
  unlimited, limited = tmp_path / "unlimited", tmp_path / "limited"
  unlimited.write_text("max\n")
  limited.write_text("4096\n")
  absent = tmp_path / "absent"
  monkeypatch.setattr(_memory, "_MEMORY_LIMITS", (absent, unlimited))
  assert runtime.spare_memory() > 4096
  monkeypatch.setattr(_memory, "_MEMORY_LIMITS", (absent, limited))
  assert runtime.spare_memory() == 2048


def test_memory_in_use_by_others_is_not_counted(tmp_path, monkeypatch):
  info = tmp_path / "meminfo"
  info.write_text("MemTotal:       20000000 kB\nMemAvailable:   10000000 kB\n")
  monkeypatch.setattr(_memory, "_MEMORY_INFO", info)
  monkeypatch.setattr(_memory, "_MEMORY_LIMITS", ())
  assert runtime.spare_memory() == 10_240_000_000 - 3_000_000_000


_COUNT_PAGES = """
import resource
import threading

import numpy as np

from pnjax import runtime

runtime.keep_freed_memory()

def touch():  # In a thread, as XLA does.
  np.ones(2**26, np.float32)

def faults():
  before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
  thread = threading.Thread(target=touch)
  thread.start()
  thread.join()
  return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

print(faults(), faults())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_freed_memory_is_kept():
  command = [sys.executable, "-c", _COUNT_PAGES]
  process = subprocess.run(command, capture_output=True, text=True, check=True)
  first, again = map(int, process.stdout.split())
  assert again < first / 10
