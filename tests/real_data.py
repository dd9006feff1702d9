"""Real images and weights, which are not part of the repository."""

import os
import pathlib

import pytest


def require(*parts: str) -> pathlib.Path:
  """Returns `$PNJAX_TEST_DATA/<parts>`, or skips the test if it does not exist."""
  root = os.environ.get("PNJAX_TEST_DATA")
  expected = "/".join(parts)
  if not root:
    pytest.skip(
      f"PNJAX_TEST_DATA is not set, expected a folder with {expected}.",
      allow_module_level=True,
    )
  path = pathlib.Path(root, *parts)
  if not path.exists():
    pytest.skip(
      f"PNJAX_TEST_DATA is {root}, expected a folder with {expected}.",
      allow_module_level=True,
    )
  return path
