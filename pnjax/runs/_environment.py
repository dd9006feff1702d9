"""The software that a result was computed with."""

import pathlib
import platform
import subprocess
from typing import Any

import flax
import jax
import optax

import pnjax


def environment() -> dict[str, Any]:
  """Return the versions of the packages and the commit of the code."""
  return {
    "versions": {
      "python": platform.python_version(),
      "pnjax": pnjax.__version__,
      "jax": jax.__version__,
      "flax": flax.__version__,
      "optax": optax.__version__,
    },
    "git_revision": _git_revision(),
  }


def _git_revision() -> str | None:
  """Return the commit of the code, followed by "-dirty" if files were changed."""
  folder = pathlib.Path(__file__).parent
  command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40"]
  try:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
  except (OSError, subprocess.CalledProcessError):
    return None
  return done.stdout.strip()
