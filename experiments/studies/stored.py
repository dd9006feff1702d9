"""Results in files, each with everything that it depends on."""

from collections.abc import Callable
from collections.abc import Mapping
import hashlib
import json
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
    folder: Folder of the results. Those with other dependencies stay there.
    name: Name of the result.
    dependencies: Everything that the result depends on, as JSON.
    compute: Function that computes the result.

  Returns:
    The dependencies, the result, and the `seconds` that it took.
  """
  path = folder / f"{name}-{dependency_digest(dependencies)}.json"
  if path.exists():
    return runtime.read_json(path)
  if any(folder.glob(f"{name}-*.json")):
    print(f"{name} is computed again: the config or the images changed")
  start = time.monotonic()
  computed = {**dependencies, **compute()}
  computed["seconds"] = round(time.monotonic() - start, 1)
  folder.mkdir(exist_ok=True)
  runtime.write_json(path, computed)
  return computed


def dependency_digest(dependencies: Mapping[str, Any]) -> str:
  """Return a short digest of the dependencies, for the names of files."""
  text = json.dumps(dependencies, sort_keys=True)
  return hashlib.sha256(text.encode()).hexdigest()[:8]
