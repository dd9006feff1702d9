"""Results in files, each with the question that it answers."""

from collections.abc import Callable
from collections.abc import Mapping
import hashlib
import json
import os
import pathlib
import time
from typing import Any

from pnjax.train import workdir as workdir_lib


def answer(
  folder: pathlib.Path,
  name: str,
  question: Mapping[str, Any],
  compute: Callable[[], Mapping[str, Any]],
) -> dict[str, Any]:
  """Returns a result from its file, or computes it.

  Args:
    folder: of the files. Answers to other questions stay there.
    name: of the result.
    question: everything that the result depends on, as JSON.
    compute: returns the result.

  Returns:
    The question, the result, and the `seconds` it took.
  """
  path = folder / f"{name}-{number(question)}.json"
  if path.exists():
    return workdir_lib.read_json(path)
  if any(folder.glob(f"{name}-*.json")):
    print(f"{name} is computed again: the config or the pictures changed")
  start = time.monotonic()
  computed = {**question, **compute()}
  computed["seconds"] = round(time.monotonic() - start, 1)
  folder.mkdir(exist_ok=True)
  workdir_lib.write_json(path, computed)
  return computed


def number(question: Mapping[str, Any]) -> str:
  """Returns a number that stands for a question."""
  text = json.dumps(question, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()[:8]


def digest(path: str | os.PathLike | None) -> str | None:
  """Returns the sha256 of a file, or None if there is none."""
  if path is None or not os.path.isfile(path):
    return None
  with open(path, "rb") as file:
    return hashlib.file_digest(file, "sha256").hexdigest()
