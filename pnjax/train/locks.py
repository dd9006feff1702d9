"""Folders that one process at a time writes to."""

from collections.abc import Iterator
import contextlib
import fcntl
import pathlib


@contextlib.contextmanager
def hold(folder: pathlib.Path) -> Iterator[None]:
  """Keeps other processes of this machine from the folder for as long as it lasts.

  Raises:
    BlockingIOError: another process holds it. One that was killed does not.
  """
  with open(folder / "lock", "w") as lock:
    try:
      fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
      raise BlockingIOError(
        f"another process is writing to {folder}; wait for it to end."
      ) from error
    yield
