"""Folders for what is not complete yet."""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import shutil
import tempfile

# Those that exist now.
_FOLDERS: set[str] = set()


@contextlib.contextmanager
def temporary_folder(
  parent: str | os.PathLike | None = None, prefix: str = ".incomplete-"
) -> Iterator[pathlib.Path]:
  """Yield a new folder that is removed at the end.

  Args:
    parent: Where to make it; by default, where the system has temporary files.
    prefix: What its name begins with.
  """
  with tempfile.TemporaryDirectory(dir=parent, prefix=prefix) as folder:
    _FOLDERS.add(folder)
    try:
      yield pathlib.Path(folder)
    finally:
      _FOLDERS.discard(folder)


def remove_temporary_folders() -> None:
  """Remove all of these folders, for a process that ends at once."""
  for folder in list(_FOLDERS):
    shutil.rmtree(folder, ignore_errors=True)
