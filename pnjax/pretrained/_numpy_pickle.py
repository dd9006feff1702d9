"""Pickles of NumPy arrays, read without running anything that they ask for."""

from collections.abc import Iterator
import io
import pathlib
import pickle
import re
from typing import Any

import numpy as np

from pnjax.pretrained import _damage

# A long name of a dictionary would be repeated for each array in it.
_MAX_NAME = 1000


def read(path: pathlib.Path) -> dict[str, np.ndarray]:
  """Read nested dictionaries of arrays; names are joined by slashes.

  A pickle is a program. This reader knows dictionaries, other plain values and, under
  the three names that NumPy's own pickles call, two classes of this module that check
  what they are given; everything else is refused, and NumPy is never called by name.

  Args:
    path: File that `pickle.dump` wrote, with protocol 3 or 4.
  """
  before = f"{path} is damaged or contains more than arrays, and was not unpickled: "
  with _damage.as_value_error(before, ""):
    with open(path, "rb") as file:
      content = _Unpickler(io.BytesIO(file.read())).load()
    if not isinstance(content, dict):
      raise TypeError(f"it is {type(content).__name__}, expected a dictionary.")
    return dict(_leaves(content, "", set()))


def _leaves(
  content: dict, prefix: str, seen: set[int]
) -> Iterator[tuple[str, np.ndarray]]:
  """Yield names and arrays, with slashes between the names of nested dictionaries."""
  # A few dictionaries that hold each other several times would have billions of leaves.
  if id(content) in seen:
    raise ValueError(f"it has the same dictionary twice, as {prefix}.")
  if len(prefix) > _MAX_NAME:
    raise ValueError(f"its names have more than {_MAX_NAME} characters.")
  seen.add(id(content))
  for key, value in content.items():
    if not isinstance(key, str):
      raise TypeError(f"it has the key {key!r}, expected str.")
    if isinstance(value, dict):
      yield from _leaves(value, f"{prefix}{key}/", seen)
    else:
      yield f"{prefix}{key}", _array(key, value)


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
    _damage.check_shape("an array", shape)
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


# The reader in Python: the one in C takes as much memory as a pickle claims to need,
# before it looks for the contents.
class _Unpickler(pickle._Unpickler):
  def find_class(self, module_name: str, global_name: str) -> Any:
    """Return what stands for a name, or refuse it."""
    if (module_name, global_name) not in _STAND_INS:
      raise pickle.UnpicklingError(f"it asks for {module_name}.{global_name}.")
    return _STAND_INS[module_name, global_name]
