import pathlib
import pickle
import sys

import jax
import numpy as np
import pytest
import safetensors.numpy

from pnjax import pretrained
from tests.pretrained.weight_files import RECIPE


def test_safetensors_npz_and_torch_give_the_same_variables(tmp_path, tensors):
  torch = pytest.importorskip("torch")
  as_torch = {k: torch.from_numpy(v) for k, v in tensors.items()}
  as_torch["features.1.num_batches_tracked"] = torch.tensor(3)
  wrapped = {"state_dict": {f"module.{k}": v for k, v in as_torch.items()}, "epoch": 90}
  torch.save(as_torch, tmp_path / "a.pth")
  torch.save(wrapped, tmp_path / "a.pth.tar")
  np.savez(tmp_path / "a.npz", **tensors)
  prefixed = {f"module.{k}": v for k, v in tensors.items()}
  safetensors.numpy.save_file(prefixed, tmp_path / "a.safetensors")
  first, *others = (
    pretrained.load(tmp_path / f"a.{suffix}", RECIPE).variables
    for suffix in ("safetensors", "npz", "pth", "pth.tar")
  )
  for other in others:
    jax.tree.map(np.testing.assert_array_equal, first, other)
  bias = first["params"]["conv1"]["bias"]
  np.testing.assert_array_equal(bias, tensors["features.0.bias"])


def test_bfloat16_of_torch_becomes_float32(tmp_path, tensors):
  torch = pytest.importorskip("torch")
  half = {k: torch.from_numpy(v).bfloat16() for k, v in tensors.items()}
  torch.save(half, tmp_path / "a.pt")
  bias = pretrained.load(tmp_path / "a.pt", RECIPE).variables["params"]["conv1"]["bias"]
  assert bias.dtype == np.float32
  np.testing.assert_array_equal(bias, half["features.0.bias"].float().numpy())


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "pth"])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_truncated_file_is_refused(tmp_path, tensors, suffix, share):
  path = tmp_path / f"a.{suffix}"
  if suffix == "safetensors":
    safetensors.numpy.save_file(tensors, path)
  elif suffix == "npz":
    np.savez(path, **tensors)
  else:
    torch = pytest.importorskip("torch")
    torch.save({k: torch.from_numpy(v) for k, v in tensors.items()}, path)
  data = path.read_bytes()
  path.write_bytes(data[: int(share * len(data))])
  with pytest.raises(ValueError, match=rf"{path.name} .*(may be truncated|is damaged)"):
    pretrained.load(path, RECIPE)


def test_single_array_is_refused(tmp_path):
  path = tmp_path / "a.npz"
  with open(path, "wb") as file:
    np.save(file, np.zeros(3))
  with pytest.raises(ValueError, match="is a single array, expected an archive"):
    pretrained.load(path, RECIPE)


class Malicious:
  def __init__(self, path):
    self.path = path

  def __reduce__(self):
    return pathlib.Path.touch, (self.path,)


def test_pickle_that_runs_code_is_refused(tmp_path):
  torch = pytest.importorskip("torch")
  touched = tmp_path / "touched"
  torch.save({"conv1.weight": Malicious(touched)}, tmp_path / "a.pth")
  (tmp_path / "b.pth").write_bytes(pickle.dumps(Malicious(touched), protocol=2))
  np.savez(tmp_path / "c.npz", x=np.array([Malicious(touched)], dtype=object))
  for name in ("a.pth", "b.pth", "c.npz"):
    with pytest.raises(ValueError, match=r"not unpickled|cannot be read"):
      pretrained.load(tmp_path / name, RECIPE)
  assert not touched.exists()


@pytest.mark.parametrize("content", [[1, 2], {"state_dict": {"epoch": 90}}])
def test_torch_file_without_tensors_is_refused(tmp_path, content):
  torch = pytest.importorskip("torch")
  torch.save(content, tmp_path / "a.pth")
  with pytest.raises(ValueError, match="no dictionary of tensors"):
    pretrained.load(tmp_path / "a.pth", RECIPE)


def test_torch_file_without_torch_is_refused(tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, "torch", None)
  (tmp_path / "a.pth").touch()
  with pytest.raises(ImportError, match=r"a\.pth needs PyTorch .*pip install"):
    pretrained.load(tmp_path / "a.pth", RECIPE)


def test_missing_file_and_unknown_suffix(tmp_path):
  with pytest.raises(FileNotFoundError, match=r"experiments\.weights fetch"):
    pretrained.load(tmp_path / "a.safetensors", RECIPE)
  with pytest.raises(ValueError, match=r"a\.h5, expected a name in \.safetensors, \.n"):
    pretrained.load(tmp_path / "a.h5", RECIPE)
