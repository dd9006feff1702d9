"""Programs for machines that are not here."""

from collections.abc import Callable
import re
from typing import Any

import jax
from jax import export

ALL = ("cpu", "cuda", "rocm", "tpu")


def lowered(f: Callable, *args: Any) -> tuple[str, ...]:
  """Lowers a function for all platforms, and returns those that the program is for."""
  return export.export(jax.jit(f), platforms=ALL)(*args).platforms


def text(f: Callable, platform: str) -> str:
  """Returns the program of a function without arguments for a platform."""
  return jax.jit(f).trace().lower(lowering_platforms=(platform,)).as_text()


def decomposes(f: Callable, platform: str) -> bool:
  """Returns whether a function without arguments calls `eigh` on a platform."""
  called = re.findall(r"custom_call @(\w+)", text(f, platform))
  return any("syevd" in name or name == "Eigh" for name in called)
