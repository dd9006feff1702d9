"""Damaged and hostile files: one line for every fault, and a bound on memory."""

from collections.abc import Iterable
from collections.abc import Iterator
import contextlib
import pathlib

# A file may unpack to this many times its size. Weights hardly compress, but for those
# that are all zero: small files may unpack to more.
_MAX_EXPANSION = 16
_ALWAYS_ALLOWED = 64 << 20

_MAX_LENGTH = 200


@contextlib.contextmanager
def as_value_error(before: str, after: str) -> Iterator[None]:
  """Report whatever the body raises in one line, as `before`, the reason, and `after`.

  Libraries raise almost anything for damaged files, and some explain it at length.
  """
  try:
    yield
  except Exception as error:
    lines = str(error).splitlines() or [type(error).__name__]
    raise ValueError(f"{before}{printable(lines[0])}{after}") from error


def check_expansion(path: pathlib.Path, num_bytes: int) -> None:
  """Raise ValueError if the contents of a file are far larger than the file."""
  size = path.stat().st_size
  if num_bytes > max(_MAX_EXPANSION * size, _ALWAYS_ALLOWED):
    raise ValueError(
      f"it unpacks to {num_bytes} bytes or more, expected at most {_MAX_EXPANSION} "
      f"times its {size} bytes"
    )


def check_shape(name: str, shape: Iterable[object]) -> None:
  """Raise ValueError for lengths that NumPy would replace by ones that fit."""
  if not all(isinstance(length, int) and length >= 0 for length in shape):
    raise ValueError(f"{name} has shape {shape}, expected lengths of at least 0")


def printable(text: str) -> str:
  """Return text from a file as one short line of plain characters."""
  plain = text.encode("ascii", "backslashreplace").decode()
  plain = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in plain)
  return plain if len(plain) <= _MAX_LENGTH else f"{plain[:_MAX_LENGTH]}..."
