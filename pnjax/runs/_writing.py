"""Errors of writing, in one line."""

from collections.abc import Iterator
import contextlib
import os

import safetensors

_CONTINUE = (
  "What was complete is kept: make room, or remove another cause, and the same command "
  "continues."
)


@contextlib.contextmanager
def writing(
  what: str, folder: str | os.PathLike, advice: str = _CONTINUE
) -> Iterator[None]:
  """Adds to an error what could not be written, and what to do.

  Args:
    what: What is written, in the plural.
    folder: Where to.
    advice: What to do.
  """
  try:
    yield
  except (OSError, safetensors.SafetensorError) as error:
    raise OSError(f"{what} cannot be written to {folder}: {error}. {advice}") from error
