"""Results in files, each with everything that it depends on."""

from collections.abc import Callable
from collections.abc import Mapping
import hashlib
import json
import os
import pathlib
import time
from typing import Any

from pnjax import runtime


def load_or_compute(
  folder: pathlib.Path,
  name: str,
  dependencies: Mapping[str, Any],
  compute: Callable[[], Mapping[str, Any]],
) -> dict[str, Any]:
  """Return a stored result, or compute and store it.

  Args:
    folder: Folder of the results, made when there is one. Those with other dependencies
      stay there.
    name: Name of the result.
    dependencies: Everything that the result depends on, as JSON.
    compute: Function that computes the result.

  Returns:
    The dependencies, the result, and the `seconds` that it took.
  """
  stored = load(folder, name, dependencies)
  if stored is not None:
    return stored
  if name in names(folder):
    print(f"{name} is computed again: the config or the images changed")
  start = time.monotonic()
  computed = {**dependencies, **compute()}
  computed["seconds"] = round(time.monotonic() - start, 1)
  store(folder, name, dependencies, computed)
  return computed


def load(
  folder: pathlib.Path, name: str, dependencies: Mapping[str, Any]
) -> dict[str, Any] | None:
  """Return a stored result, or None."""
  path = _path(folder, name, dependencies)
  return runtime.read_json(path) if path.exists() else None


def store(
  folder: pathlib.Path,
  name: str,
  dependencies: Mapping[str, Any],
  result: Mapping[str, Any],
) -> None:
  """Store a result, which contains its dependencies."""
  folder.mkdir(parents=True, exist_ok=True)
  runtime.write_json(_path(folder, name, dependencies), result)


def names(folder: pathlib.Path) -> set[str]:
  """Return the names of the results of a folder, with any dependencies."""
  return {path.stem.rpartition("-")[0] for path in folder.glob("*-*.json")}


def check_folders(**folders: str | os.PathLike | None) -> None:
  """Raise ValueError if folders cannot be made, before anything is computed.

  Args:
    **folders: Folders by the names of their flags.
  """
  for flag, folder in folders.items():
    if folder is None:
      continue
    path = pathlib.Path(folder).absolute()
    existing = next(p for p in (path, *path.parents) if p.exists())
    if not existing.is_dir():
      which = "which" if existing == path else f"but {existing}"
      raise ValueError(f"--{flag} is {folder}, {which} is a file, expected a folder.")
    if not os.access(existing, os.W_OK):
      raise ValueError(f"--{flag} is {folder}, but {existing} cannot be written to.")


def _path(
  folder: pathlib.Path, name: str, dependencies: Mapping[str, Any]
) -> pathlib.Path:
  return folder / f"{name}-{dependency_digest(dependencies)}.json"


def dependency_digest(dependencies: Mapping[str, Any]) -> str:
  """Return a short digest of the dependencies, for the names of files."""
  text = json.dumps(dependencies, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()[:8]
