"""Conversion of weights to safetensors that state their recipe."""

import os
import pathlib

from pnjax.pretrained import _load


def convert(
  source: str | os.PathLike, output: str | os.PathLike, recipe: str | None = None
) -> None:
  """Write weights as safetensors that state their recipe, completely or not at all.

  Args:
    source: File that `load` reads.
    output: File to write, with the suffix `.safetensors`. Its folder is created.
    recipe: Name of the recipe, if `source` does not state it.
  """
  output = pathlib.Path(output)
  if output.suffix != ".safetensors":
    raise ValueError(f"The output is {output}, expected a name in .safetensors.")
  weights = _load.load(source, recipe)
  output.parent.mkdir(parents=True, exist_ok=True)
  _load.save(output, weights)
