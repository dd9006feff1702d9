"""Folders that one process at a time may write to."""

from collections.abc import Iterator
import contextlib
import fcntl
import logging
import pathlib

_LOGGER = logging.getLogger(__name__)


@contextlib.contextmanager
def lock_folder(folder: pathlib.Path, wait: bool = False) -> Iterator[None]:
  """Keep other processes on this machine from writing to a folder.

  The lock of a process that was killed is released by the system.

  Args:
    folder: The folder.
    wait: Whether to wait for a process that holds the lock.

  Raises:
    BlockingIOError: if another process holds the lock, unless `wait`.
  """
  with open(folder / "lock", "w") as lock:
    try:
      fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
      if not wait:
        raise BlockingIOError(
          f"another process is writing to {folder}; wait for it to end."
        ) from error
      _LOGGER.info("waiting for another process, which is writing to %s", folder)
      fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:  # Some network disks know no locks.
      raise OSError(f"{folder} cannot be locked: {error.strerror}.") from error
    yield
