"""Layouts of tensors in other frameworks."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Path = tuple[str, ...]
Shape = tuple[int, ...]


class Conversion(NamedTuple):
  """How one array of a Flax tree is made from tensors of a file.

  Attributes:
    tensors: Names of the tensors, with their expected shapes.
    convert: Function from these tensors, in this order, to the array.
  """

  tensors: dict[str, Shape]
  convert: Callable[..., np.ndarray]


class Layout(NamedTuple):
  """Functions from an array of a Flax tree to PyTorch's layout, and back."""

  to_torch: Callable[[np.ndarray], np.ndarray]
  from_torch: Callable[[np.ndarray], np.ndarray]


_AS_IS = Layout(lambda x: x, lambda x: x)
_DENSE = Layout(lambda x: x.transpose(), lambda x: x.transpose())
_CONV = Layout(lambda x: x.transpose(3, 2, 0, 1), lambda x: x.transpose(2, 3, 1, 0))


def layout_of_rank(rank: int) -> Layout:
  """Return the layout of vectors, dense kernels, tokens and kernels of convolutions."""
  return {1: _AS_IS, 2: _DENSE, 3: _AS_IS, 4: _CONV}[rank]
