import dataclasses
import pathlib
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from pnjax import pretrained
from pnjax.pretrained import _load
from pnjax.pretrained import _names

RECIPE = "alexnet_torchvision"


@pytest.fixture(scope="module")
def tensors():
  """Random convolutions of AlexNet in torchvision's names."""
  return random_tensors(pretrained.RECIPES[RECIPE], with_classifier=False)


def random_tensors(recipe, with_classifier=True, keras=False):
  rng = np.random.default_rng(0)
  model = recipe.model(with_classifier)
  sources = _load._sources(model, recipe.architecture, keras)
  return {
    name: rng.standard_normal(shape, dtype=np.float32)
    for source in sources.values()
    for name, shape in source.tensors.items()
  }


def write(path, tensors, metadata=None):
  safetensors.numpy.save_file(tensors, path, metadata)
  return path


def test_safetensors_npz_and_torch_give_the_same_variables(tmp_path, tensors):
  torch = pytest.importorskip("torch")
  as_torch = {k: torch.from_numpy(v) for k, v in tensors.items()}
  as_torch["features.1.num_batches_tracked"] = torch.tensor(3)
  wrapped = {"state_dict": {f"module.{k}": v for k, v in as_torch.items()}, "epoch": 90}
  torch.save(as_torch, tmp_path / "a.pth")
  torch.save(wrapped, tmp_path / "a.pth.tar")
  np.savez(tmp_path / "a.npz", **tensors)
  write(tmp_path / "a.safetensors", {f"module.{k}": v for k, v in tensors.items()})
  first, *others = (
    pretrained.load(tmp_path / f"a.{suffix}", RECIPE).variables
    for suffix in ("safetensors", "npz", "pth", "pth.tar")
  )
  for other in others:
    jax.tree.map(np.testing.assert_array_equal, first, other)


def test_half_precision_becomes_float32(tmp_path, tensors):
  half = {k: v.astype(np.float16) for k, v in tensors.items()}
  weights = pretrained.load(write(tmp_path / "a.safetensors", half), RECIPE)
  assert all(x.dtype == jnp.float32 for x in jax.tree.leaves(weights.variables))
  np.testing.assert_array_equal(
    weights.variables["params"]["conv1"]["bias"],
    half["features.0.bias"].astype(np.float32),
  )


def test_recipe_from_metadata(tmp_path, tensors):
  path = write(tmp_path / "a.safetensors", tensors, {"recipe": RECIPE})
  assert pretrained.load(path).name == RECIPE
  np.savez(tmp_path / "a.npz", recipe=RECIPE, **tensors)
  assert pretrained.load(tmp_path / "a.npz").name == RECIPE


def test_without_any_recipe_the_error_lists_the_choices(tmp_path, tensors):
  path = write(tmp_path / "a.safetensors", tensors)
  with pytest.raises(ValueError, match="one of resnet50_v1_caffe, resnet50_torch"):
    pretrained.load(path)


def test_unknown_recipe_is_refused(tmp_path, tensors):
  path = write(tmp_path / "a.safetensors", tensors)
  with pytest.raises(ValueError, match="'resnet51', expected one of resnet50_v1"):
    pretrained.load(path, "resnet51")


def test_contradicting_the_file_has_to_be_said(tmp_path, tensors):
  path = write(tmp_path / "a.safetensors", tensors, {"recipe": "resnet50_torchvision"})
  with pytest.raises(ValueError, match="states the recipe 'resnet50_torchvision'"):
    pretrained.load(path, RECIPE)
  assert pretrained.load(path, RECIPE, override_recipe=True).name == RECIPE


def test_recipe_of_ones_own(tmp_path):
  recipe = dataclasses.replace(pretrained.RECIPES[RECIPE], num_classes=7)
  path = write(tmp_path / "a.safetensors", random_tensors(recipe))
  weights = pretrained.load(path, recipe)
  assert weights.name == "custom"
  x = weights.preprocess(np.zeros((1, 224, 224, 3), np.uint8))
  assert weights.logits(x).shape == (1, 7)
  with pytest.raises(ValueError, match="a file states its recipe by name"):
    pretrained.save(tmp_path / "b.safetensors", weights)


def test_every_mismatch_is_listed(tmp_path, tensors):
  wrong = dict(tensors)
  del wrong["features.0.bias"]
  wrong["features.3.bias"] = np.zeros(7, np.float32)
  wrong["features.6.bias"] = np.zeros(384, np.int32)
  wrong["features.99.bias"] = np.zeros(7, np.float32)
  with pytest.raises(ValueError) as error:
    pretrained.load(write(tmp_path / "a.safetensors", wrong), RECIPE)
  assert "1 missing:\n  - features.0.bias" in str(error.value)
  assert "1 not of this network:\n  + features.99.bias" in str(error.value)
  assert "! features.3.bias: float32[7], expected floating [192]" in str(error.value)
  assert "! features.6.bias: int32[384]" in str(error.value)


def test_wrong_network_is_refused(tmp_path, tensors):
  path = write(tmp_path / "a.safetensors", tensors)
  with pytest.raises(ValueError, match="does not fit 'resnet50_v1_caffe'"):
    pretrained.load(path, "resnet50_v1_caffe")


def test_wrong_number_of_classes_is_refused(tmp_path):
  tensors = random_tensors(pretrained.RECIPES["resnet50_places365"])
  path = write(tmp_path / "a.safetensors", tensors)
  with pytest.raises(ValueError, match=r"fc.bias: float32\[365\], expected floating"):
    pretrained.load(path, "resnet50_torchvision")


def test_part_of_a_classifier_is_refused(tmp_path, tensors):
  part = tensors | {"classifier.6.bias": np.zeros(1000, np.float32)}
  path = write(tmp_path / "a.safetensors", part)
  with pytest.raises(ValueError, match=r"5 missing:\n  - classifier.1.bias"):
    pretrained.load(path, RECIPE)


def test_weights_that_are_not_finite_are_refused(tmp_path, tensors):
  name = "features.0.bias"
  broken = tensors | {name: np.full_like(tensors[name], np.nan)}
  with pytest.raises(ValueError, match=f"damaged: {name} has values that are not fini"):
    pretrained.load(write(tmp_path / "a.safetensors", broken), RECIPE)


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "pth"])
@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_truncated_file_is_refused(tmp_path, tensors, suffix, share):
  path = tmp_path / f"a.{suffix}"
  if suffix == "safetensors":
    write(path, tensors)
  elif suffix == "npz":
    np.savez(path, **tensors)
  else:
    torch = pytest.importorskip("torch")
    torch.save({k: torch.from_numpy(v) for k, v in tensors.items()}, path)
  data = path.read_bytes()
  path.write_bytes(data[: int(share * len(data))])
  with pytest.raises(ValueError, match=r"truncated|damaged"):
    pretrained.load(path, RECIPE)


def test_a_single_array_is_refused(tmp_path):
  path = tmp_path / "a.npz"
  with open(path, "wb") as file:
    np.save(file, np.zeros(3))
  with pytest.raises(ValueError, match="is no archive of arrays"):
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


def test_torch_file_without_tensors_is_refused(tmp_path):
  torch = pytest.importorskip("torch")
  torch.save([1, 2], tmp_path / "a.pth")
  with pytest.raises(ValueError, match="no dictionary of tensors"):
    pretrained.load(tmp_path / "a.pth", RECIPE)


def test_missing_file_and_unknown_kind(tmp_path):
  with pytest.raises(FileNotFoundError, match=r"experiments.weights fetch"):
    pretrained.load(tmp_path / "a.safetensors", RECIPE)
  with pytest.raises(ValueError, match=r"ends in none of .safetensors, .npz"):
    pretrained.load(tmp_path / "a.h5", RECIPE)


def test_preprocess_owns_order_mean_and_std(tmp_path, tensors):
  weights = pretrained.load(write(tmp_path / "a.safetensors", tensors), RECIPE)
  red = np.array([255, 0, 0], np.uint8).reshape(1, 1, 1, 3)
  expected = [(1 - 0.485) / 0.229, -0.456 / 0.224, -0.406 / 0.225]
  np.testing.assert_allclose(weights.preprocess(red)[0, 0, 0], expected, rtol=1e-6)
  caffe = dataclasses.replace(weights, recipe=pretrained.RECIPES["resnet50_v1_caffe"])
  expected = [-103.939, -116.779, 255 - 123.68]
  np.testing.assert_allclose(caffe.preprocess(red)[0, 0, 0], expected, rtol=1e-6)


@pytest.mark.parametrize(
  "images", [np.zeros((8, 8, 3), np.uint8), np.zeros((1, 8, 8, 3), np.float32)]
)
def test_preprocess_takes_batches_of_uint8_only(tmp_path, tensors, images):
  weights = pretrained.load(write(tmp_path / "a.safetensors", tensors), RECIPE)
  with pytest.raises(ValueError, match=r"expected uint8 RGB \[B, H, W, 3\]"):
    weights.preprocess(images)


def test_logits_without_classifier_are_refused(tmp_path, tensors):
  weights = pretrained.load(write(tmp_path / "a.safetensors", tensors), RECIPE)
  with pytest.raises(ValueError, match="came without a classifier"):
    weights.logits(np.zeros((1, 224, 224, 3), np.float32))


def test_saved_weights_load_again(tmp_path, tensors):
  path = write(tmp_path / "a.safetensors", tensors)
  weights = pretrained.load(path, RECIPE)
  pretrained.save(tmp_path / "b.safetensors", weights)
  again = pretrained.load(tmp_path / "b.safetensors")
  jax.tree.map(np.testing.assert_array_equal, weights.variables, again.variables)
  assert sorted(p.name for p in tmp_path.iterdir()) == [path.name, "b.safetensors"]


@pytest.mark.parametrize(
  "name, shape",
  [("conv1", (3, 3, 2, 5)), ("fc6", (9216, 5)), ("fc7", (4, 5)), ("bn1", (5,))],
)
def test_layouts_have_a_way_back(rng, name, shape):
  x = rng.standard_normal(shape)
  layout = _names.torchvision_layout(("params", name, "kernel"), shape)
  np.testing.assert_array_equal(layout.from_torch(layout.to_torch(x)), x)


def test_interrupted_save_leaves_nothing(tmp_path, tensors, monkeypatch):
  weights = pretrained.load(write(tmp_path / "a.safetensors", tensors), RECIPE)

  def fail(*_):
    raise OSError("No space left on device")

  monkeypatch.setattr("os.replace", fail)
  with pytest.raises(OSError, match="No space"):
    pretrained.save(tmp_path / "b.safetensors", weights)
  assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


def test_keras_names_and_biases(tmp_path):
  recipe = pretrained.RECIPES["resnet50_v1_caffe"]
  tensors = random_tensors(recipe, keras=True)
  path = write(tmp_path / "a.safetensors", tensors)
  variables = pretrained.load(path, "resnet50_v1_caffe").variables
  block = variables["params"]["layer3"]["block5"]
  np.testing.assert_array_equal(
    block["conv2"]["kernel"], tensors["res4f_branch2b/kernel"]
  )
  statistics = variables["batch_stats"]["layer2"]["block0"]["bn_downsample"]
  np.testing.assert_allclose(
    statistics["mean"],
    tensors["bn3a_branch1/moving_mean"] - tensors["res3a_branch1/bias"],
  )


def test_only_resnet_has_keras_names():
  with pytest.raises(ValueError, match="only resnet50 has Keras names"):
    _names.keras_source("alexnet", ("params", "conv1", "kernel"), (11, 11, 3, 64))
