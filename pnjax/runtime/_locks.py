"""Folders that one process at a time may write to."""

from collections.abc import Iterator
import contextlib
import fcntl
import pathlib


@contextlib.contextmanager
def lock_folder(folder: pathlib.Path) -> Iterator[None]:
  """Keep other processes on this machine from writing to a folder.

  The lock of a process that was killed is released by the system.

  Raises:
    BlockingIOError: if another process holds the lock.
  """
  with open(folder / "lock", "w") as lock:
    try:
      fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
      raise BlockingIOError(
        f"another process is writing to {folder}; wait for it to end."
      ) from error
    except OSError as error:  # Some network disks know no locks.
      raise OSError(f"{folder} cannot be locked: {error.strerror}.") from error
    yield
