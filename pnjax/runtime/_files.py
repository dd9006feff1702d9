"""Small files, written completely or not at all."""

import hashlib
import json
import os
import pathlib
import tempfile
from typing import Any


def cache_folder() -> pathlib.Path:
  """Return the folder for downloads and features: `$PNJAX_CACHE` or `~/.cache/pnjax`.

  Everything in it can be downloaded or computed again.
  """
  folder = os.environ.get("PNJAX_CACHE")
  return pathlib.Path(folder) if folder else pathlib.Path.home() / ".cache" / "pnjax"


def make_writable(folder: pathlib.Path, what: str, advice: str) -> None:
  """Make a folder if it is missing, and check that files can be written to it.

  Args:
    folder: The folder.
    what: What an error calls it.
    advice: What to do if it cannot be written to.

  Raises:
    OSError: if it cannot be made or written to.
  """
  if folder.exists() and not folder.is_dir():
    raise NotADirectoryError(f"{what} {folder} is a file, expected a folder; {advice}.")
  try:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
      pass
  except OSError as error:
    reason = error.strerror or error
    raise OSError(
      f"{what} {folder} cannot be written to: {reason}; {advice}."
    ) from error


def read_json(path: pathlib.Path) -> dict[str, Any]:
  """Read an object from a file that `write_json` wrote."""
  try:
    value = json.loads(path.read_text(encoding="utf-8"))
  except (ValueError, RecursionError) as error:  # Or text that is not UTF-8.
    raise ValueError(f"{path} is damaged: {error}.") from error
  if not isinstance(value, dict):
    raise ValueError(
      f"{path} is damaged: it holds a {type(value).__name__}, expected an object."
    )
  return value


def write_json(path: pathlib.Path, value: Any) -> None:
  """Write a value as JSON, completely or not at all."""
  write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_text(path: pathlib.Path, text: str) -> None:
  """Write text, completely or not at all.

  Raises:
    OSError: if it cannot be written, with the name of the file.
  """
  temporary = path.with_name(f".{path.name}.new")
  try:
    try:
      with open(temporary, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
      os.replace(temporary, path)
    finally:
      temporary.unlink(missing_ok=True)
  except OSError as error:
    reason = error.strerror or error
    raise type(error)(f"{path} cannot be written: {reason}.") from error


def file_digest(path: str | os.PathLike) -> str:
  """Return the sha256 of a file."""
  with open(path, "rb") as file:
    return hashlib.file_digest(file, "sha256").hexdigest()
