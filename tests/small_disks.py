"""A disk of a few megabytes, which is quickly full."""

import contextlib
import subprocess

import pytest

_MEGABYTES = 4


@contextlib.contextmanager
def small_disk(folder):
  """Mounts an empty disk on a folder, and yields a function that makes it read-only."""
  if not _mount("-t", "tmpfs", "-o", f"size={_MEGABYTES}m", "tmpfs", folder):
    pytest.skip("mounting a disk is not permitted")
  try:
    yield lambda: _mount("-o", "remount,ro", folder) or pytest.fail("not remounted")
  finally:
    subprocess.run(["umount", folder], check=True)


def _mount(*args):
  try:
    return subprocess.run(["mount", *args], capture_output=True).returncode == 0
  except FileNotFoundError:
    return False
