"""Archives of NumPy arrays, read without trusting what they say about themselves."""

import io
import pathlib
import zipfile

import numpy as np

from pnjax.pretrained import _damage

_MAGIC = b"\x93NUMPY"
_COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # Those of NumPy.
_HEADERS = {
  (1, 0): np.lib.format.read_array_header_1_0,
  (2, 0): np.lib.format.read_array_header_2_0,
}


def read(path: pathlib.Path) -> dict[str, np.ndarray]:
  """Read all arrays of an archive that `numpy.savez` wrote.

  `numpy.load` allocates whatever size an array claims to have, however small its file.
  """
  with path.open("rb") as file:
    if file.read(len(_MAGIC)) == _MAGIC:
      raise ValueError(
        "it is a single array, expected an archive as `numpy.savez` makes"
      )
  with zipfile.ZipFile(path) as archive:
    members = archive.infolist()
    _damage.check_expansion(path, sum(member.file_size for member in members))
    arrays: dict[str, np.ndarray] = {}
    for member in members:
      name = member.filename.removesuffix(".npy")
      if name in arrays:
        raise ValueError(f"it has {name} twice")
      if member.compress_type not in _COMPRESSIONS:
        raise ValueError(f"{name} is compressed by an unknown method")
      with archive.open(member) as content:
        # Without a number, the whole content is unpacked before its size is checked.
        arrays[name] = _array(name, content.read(member.file_size))
    return arrays


def _array(name: str, data: bytes) -> np.ndarray:
  """Return an array whose contents are the rest of the data behind its header."""
  stream = io.BytesIO(data)
  version = np.lib.format.read_magic(stream)
  if version not in _HEADERS:
    raise ValueError(f"{name} has version {version}, expected (1, 0) or (2, 0)")
  shape, is_fortran, dtype = _HEADERS[version](stream)
  if dtype.hasobject:
    raise ValueError(f"{name} is made of objects, expected numbers")
  _damage.check_shape(name, shape)
  flat = np.frombuffer(data, dtype, offset=stream.tell())
  return flat.reshape(shape, order="F" if is_fortran else "C")
