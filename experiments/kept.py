"""Results in files, each with the question that it answers."""

from collections.abc import Callable
from collections.abc import Mapping
import hashlib
import os
import pathlib
import time
from typing import Any

from pnjax.train import workdir as workdir_lib


def answer(
  path: pathlib.Path,
  question: Mapping[str, Any],
  compute: Callable[[], Mapping[str, Any]],
  label: str,
) -> dict[str, Any]:
  """Returns a result from its file if it answers the question, or computes it.

  Args:
    path: of the file.
    question: everything that the result depends on, as JSON.
    compute: returns the result.
    label: what a line about a result that is computed again begins with.

  Returns:
    The question, the result, and the `seconds` it took.
  """
  if path.exists():
    kept = workdir_lib.read_json(path)
    if {name: kept.get(name) for name in question} == question:
      return kept
    print(f"{label} is computed again: the config or the pictures changed")
  start = time.monotonic()
  computed = {**question, **compute()}
  computed["seconds"] = round(time.monotonic() - start, 1)
  path.parent.mkdir(exist_ok=True)
  workdir_lib.write_json(path, computed)
  return computed


def digest(path: str | os.PathLike | None) -> str | None:
  """Returns the sha256 of a file, or None if there is none."""
  if path is None or not os.path.isfile(path):
    return None
  with open(path, "rb") as file:
    return hashlib.file_digest(file, "sha256").hexdigest()
