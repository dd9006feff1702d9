import os
import pickle

import numpy as np
import pytest

from pnjax import pretrained
from pnjax.pretrained import _numpy_pickle

ARRAYS = {
  "a": {"kernel": np.arange(24, dtype=np.float32).reshape(2, 3, 4)},
  "b": {
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "big_endian": np.arange(3, dtype=">i4"),
    "scalar": np.array(2.5, np.float16),
    "empty": np.zeros((0, 3), np.uint8),
  },
}


def write(path, content, protocol=3):
  path.write_bytes(pickle.dumps(content, protocol))
  return path


@pytest.mark.parametrize("protocol", [3, 4])
def test_nested_arrays(tmp_path, protocol):
  actual = _numpy_pickle.read(write(tmp_path / "a.ckpt", ARRAYS, protocol))
  expected = {f"{i}/{k}": x for i, group in ARRAYS.items() for k, x in group.items()}
  assert actual.keys() == expected.keys()
  for name, x in expected.items():
    np.testing.assert_array_equal(actual[name], x, strict=True)


def test_name_of_numpy_1(tmp_path):
  path = write(tmp_path / "a.ckpt", ARRAYS)
  data = path.read_bytes()
  assert b"numpy._core.multiarray" in data
  path.write_bytes(data.replace(b"numpy._core.multiarray", b"numpy.core.multiarray"))
  assert len(_numpy_pickle.read(path)) == 5


class Call:
  """Pickles as the call of a function."""

  def __init__(self, function, *args, state=None):
    self.call = function, args, state

  def __reduce__(self):
    return self.call


def reconstruct(state):
  function, (_, shape, code), _ = np.zeros(1).__reduce__()
  return Call(function, np.ndarray, shape, code, state=state)


@pytest.mark.parametrize(
  "call, message",
  [
    (Call(os.system, "touch touched"), "it asks for posix.system"),
    (Call(eval, "open('touched', 'w')"), "it asks for builtins.eval"),
    (Call(np.load, "a.npy"), r"it asks for numpy.load"),
    (Call(np.ndarray, (3,)), "not callable"),
    (Call(np.dtype, "O"), "its arrays are 'O', expected real numbers"),
    (np.array([Call(os.system, "touch touched")]), "its arrays are 'O8', expected"),
    (np.array([None]), "its arrays are 'O8', expected real"),
    (np.array(["a"]), "its arrays are 'U1', expected real"),
    (np.zeros(2, [("x", "f4")]), "its arrays are 'V4', expected real"),
    (reconstruct((1, (9,), np.dtype("f4"), False, b"1234")), "cannot reshape"),
    (reconstruct((1, (1,), None, False, b"1234")), "are not numbers"),
    (reconstruct((1, (1,), np.dtype("f4"), False, [1])), "are not numbers"),
    (reconstruct(None), "has no attribute 'value'"),
    (3, "a is int, expected an array"),
    ({1: np.zeros(3)}, "it has the key 1, expected str"),
  ],
)
def test_anything_else_is_refused_in_one_line(tmp_path, monkeypatch, call, message):
  monkeypatch.chdir(tmp_path)
  path = write(tmp_path / "a.ckpt", {"a": call})
  with pytest.raises(ValueError, match=message) as error:
    pretrained.load(path, "vgg16_torchvision")
  assert str(error.value).startswith(f"{path} is damaged or contains more than arrays")
  assert len(str(error.value).splitlines()) == 1
  assert not (tmp_path / "touched").exists()


def test_something_else_than_a_dictionary_is_refused(tmp_path):
  path = write(tmp_path / "a.ckpt", [np.zeros(3)])
  with pytest.raises(ValueError, match="it is list, expected a dictionary"):
    _numpy_pickle.read(path)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.999])
def test_truncated_pickle_is_refused(tmp_path, share):
  path = write(tmp_path / "a.ckpt", ARRAYS)
  data = path.read_bytes()
  path.write_bytes(data[: int(share * len(data))])
  with pytest.raises(ValueError, match="is damaged or contains more than arrays"):
    _numpy_pickle.read(path)
