"""Pickles of NumPy arrays, read without running anything that they ask for."""

import pathlib
import pickle
import re
import struct
from typing import Any

from flax import traverse_util
import numpy as np

# What damaged pickles raise.
_DAMAGED = (
  pickle.UnpicklingError,
  ArithmeticError,
  AttributeError,
  EOFError,
  LookupError,
  MemoryError,
  RecursionError,
  TypeError,
  ValueError,
  struct.error,
)


def read(path: pathlib.Path) -> dict[str, np.ndarray]:
  """Read nested dictionaries of arrays; names are joined by slashes.

  A pickle is a program. This reader knows dictionaries, other plain values and, under
  the three names that NumPy's own pickles call, two classes of this module that check
  what they are given; everything else is refused, and NumPy is never called by name.

  Args:
    path: File that `pickle.dump` wrote, with protocol 3 or 4.
  """
  try:
    with open(path, "rb") as file:
      content = _Unpickler(file).load()
    if not isinstance(content, dict):
      raise TypeError(f"it is {type(content).__name__}, expected a dictionary.")
    leaves = traverse_util.flatten_dict(content, sep="/")
    return {name: _array(name, leaf) for name, leaf in leaves.items()}
  except _DAMAGED as error:
    reason = str(error) or type(error).__name__
    raise ValueError(
      f"{path} is damaged or contains more than arrays, and was not unpickled: {reason}"
    ) from error


def _array(name: str, leaf: Any) -> np.ndarray:
  if not isinstance(leaf, _Array):
    raise TypeError(f"{name} is {type(leaf).__name__}, expected an array.")
  return leaf.value


class _Dtype:
  """Stands for a type of numbers."""

  def __init__(self, code: str, align: bool = False, copy: bool = True):
    if not isinstance(code, str) or not re.fullmatch("[fiu][1248]", code):
      raise ValueError(f"its arrays are {code!r}, expected real numbers.")
    self.value = np.dtype(code)

  def __setstate__(self, state: tuple) -> None:
    """Take over the byte order; numbers have nothing else."""
    _, order, *_ = state
    if order not in ("<", ">", "|"):
      raise ValueError(f"the byte order is {order!r}, expected '<', '>' or '|'.")
    self.value = self.value.newbyteorder(order)


class _Array:
  """Stands for an array, which has its contents after `__setstate__`."""

  def __init__(self, subtype: None, shape: tuple, code: bytes):
    """Take the arguments of NumPy's function, none of which says anything."""

  def __setstate__(self, state: tuple) -> None:
    """Take over the contents."""
    _, shape, dtype, is_fortran, data = state
    if not isinstance(dtype, _Dtype) or not isinstance(data, bytes):
      raise TypeError("the contents of an array are not numbers.")
    self.value = np.frombuffer(data, dtype.value).reshape(
      shape, order="F" if is_fortran else "C"
    )


# None cannot be called: an array names its type, but does not make it.
_STAND_INS = {
  ("numpy.core.multiarray", "_reconstruct"): _Array,
  ("numpy._core.multiarray", "_reconstruct"): _Array,
  ("numpy", "ndarray"): None,
  ("numpy", "dtype"): _Dtype,
}


class _Unpickler(pickle.Unpickler):
  def find_class(self, module_name: str, global_name: str) -> Any:
    """Return what stands for a name, or refuse it."""
    if (module_name, global_name) not in _STAND_INS:
      raise pickle.UnpicklingError(f"it asks for {module_name}.{global_name}.")
    return _STAND_INS[module_name, global_name]
