"""The folder for what was fetched or computed and can be again."""

import os
import pathlib


def cache_folder() -> pathlib.Path:
  """Returns `$PNJAX_CACHE`, or `~/.cache/pnjax`."""
  folder = os.environ.get("PNJAX_CACHE")
  return pathlib.Path(folder) if folder else pathlib.Path.home() / ".cache" / "pnjax"
