import dataclasses
import stat

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import safetensors.numpy

from pnjax import pretrained
from tests.pretrained.weight_files import RECIPE
from tests.pretrained.weight_files import random_tensors


def write(path, tensors, metadata=None):
  safetensors.numpy.save_file(tensors, path, metadata)
  return path


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


def test_recipe_from_a_description_in_words(tmp_path, tensors):
  metadata = {
    "architecture": "alexnet (torchvision layout), convolutions only",
    "input": "RGB in [0,1], minus (0.485,0.456,0.406), over (0.229,0.224,0.225)",
    "author": "somebody",
  }
  path = write(tmp_path / "a.safetensors", tensors, metadata)
  assert pretrained.load(path).name == RECIPE
  del metadata["input"]
  path = write(tmp_path / "b.safetensors", tensors, metadata)
  with pytest.raises(ValueError, match="does not state its recipe"):
    pretrained.load(path)


def test_without_any_recipe_the_error_lists_the_choices(file):
  with pytest.raises(ValueError, match="one of resnet50_v1_caffe, resnet50_torch"):
    pretrained.load(file)


def test_unknown_recipe_is_refused(file):
  with pytest.raises(ValueError, match="'resnet51', expected one of resnet50_v1"):
    pretrained.load(file, "resnet51")


def test_contradicting_the_file_must_be_explicit(tmp_path, tensors):
  path = write(tmp_path / "a.safetensors", tensors, {"recipe": "resnet50_torchvision"})
  with pytest.raises(ValueError, match=f"{RECIPE}', expected 'resnet50_torchvision'"):
    pretrained.load(path, RECIPE)
  assert pretrained.load(path, RECIPE, override_recipe=True).name == RECIPE


def test_custom_recipe(tmp_path, file):
  recipe = dataclasses.replace(
    pretrained.RECIPES[RECIPE], num_classes=7, preprocessing=pretrained.CENTERED
  )
  assert recipe.model(with_classifier=True).num_classes == 7
  weights = pretrained.load(file, recipe)
  assert weights.name == "custom"
  assert weights.preprocess(np.zeros((1, 1, 1, 3), np.uint8)).max() == -1
  with pytest.raises(
    ValueError, match="is 'custom', expected one of resnet50_v1_caffe"
  ):
    pretrained.save(tmp_path / "b.safetensors", weights)


def test_recipes_set_the_fields_of_their_network():
  recipe = pretrained.RECIPES["resnet50_v1_caffe"]
  model = recipe.model(with_classifier=False)
  assert (model.variant, model.epsilon, model.num_classes) == ("v1", 1e-3, None)
  model = dataclasses.replace(recipe, epsilon=None).model(with_classifier=True)
  assert (model.epsilon, model.num_classes) == (1e-5, 1000)
  unknown = dataclasses.replace(recipe, architecture="vgg")
  with pytest.raises(ValueError, match="architecture 'vgg', expected one of resnet18"):
    unknown.model(with_classifier=False)


def test_known_recipe_is_recognised(file):
  recipe = dataclasses.replace(pretrained.RECIPES[RECIPE])
  assert pretrained.load(file, recipe).name == RECIPE


def test_every_mismatch_is_listed(tmp_path, tensors):
  wrong = dict(tensors)
  del wrong["features.0.bias"]
  wrong["features.3.bias"] = np.zeros(7, np.float32)
  wrong["features.6.bias"] = np.zeros(384, np.int32)
  wrong["features.99.bias"] = np.zeros(7, np.float32)
  path = write(tmp_path / "a.safetensors", wrong)
  with pytest.raises(ValueError) as error:
    pretrained.load(path, RECIPE)
  assert str(error.value) == (
    f"{path} does not fit {RECIPE!r}. Tensors: 1 missing (features.0.bias); 1 not in "
    "this network (features.99.bias); 2 with another shape or dtype (features.3.bias: "
    "float32[7], expected floating [192], features.6.bias: int32[384], expected "
    "floating [384]). Check the recipe and the number of classes."
  )


def test_wrong_network_is_refused(file):
  with pytest.raises(ValueError, match="does not fit 'resnet50_v1_caffe'") as error:
    pretrained.load(file, "resnet50_v1_caffe")
  # 161 parameters without `fc` and 2 × 53 statistics, of which five are named.
  assert "Tensors: 265 missing (bn1.bias, " in str(error.value)
  assert " and 260 more); 10 not in this network (features.0.bias," in str(error.value)
  assert len(str(error.value).splitlines()) == 1


@pytest.fixture(scope="module")
def places365(tmp_path_factory):
  tensors = random_tensors(pretrained.RECIPES["resnet50_places365"])
  return write(tmp_path_factory.mktemp("places365") / "a.safetensors", tensors)


def test_number_of_classes(places365):
  weights = pretrained.load(places365, "resnet50_places365")
  x = weights.preprocess(np.zeros((1, 224, 224, 3), np.uint8))
  assert jax.eval_shape(weights.logits, x).shape == (1, 365)


def test_wrong_number_of_classes_is_refused(places365):
  with pytest.raises(
    ValueError, match=r"fc.bias: float32\[365\], expected floating \[1"
  ):
    pretrained.load(places365, "resnet50_torchvision")


def test_part_of_a_classifier_is_refused(tmp_path, tensors):
  part = tensors | {"classifier.6.bias": np.zeros(1000, np.float32)}
  path = write(tmp_path / "a.safetensors", part)
  with pytest.raises(ValueError, match=r"5 missing \(classifier.1.bias"):
    pretrained.load(path, RECIPE)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(tmp_path, tensors, value):
  name = "features.0.bias"
  broken = tensors | {name: tensors[name].copy()}
  broken[name][3] = value
  with pytest.raises(ValueError, match=f"damaged: not all values are finite in {name}"):
    pretrained.load(write(tmp_path / "a.safetensors", broken), RECIPE)


def test_features_have_the_shape_of_the_last_stage(weights):
  x = weights.preprocess(np.zeros((2, 224, 224, 3), np.uint8))
  features = jax.eval_shape(weights.features, x)
  assert features.shape == (2, 6, 6, 256)


def test_logits_without_a_classifier_are_refused(weights):
  with pytest.raises(ValueError, match="alexnet have no classifier; use `features`"):
    weights.logits(np.zeros((1, 224, 224, 3), np.float32))


def test_images_that_were_not_preprocessed_are_refused(weights):
  with pytest.raises(ValueError, match="`x` is uint8, expected the output of `prepr"):
    weights.features(np.zeros((1, 224, 224, 3), np.uint8))


def test_saved_weights_load_again(tmp_path, file, weights):
  path = tmp_path / "b.safetensors"
  pretrained.save(path, weights)
  again = pretrained.load(path)
  jax.tree.map(np.testing.assert_array_equal, weights.variables, again.variables)
  assert sorted(p.name for p in tmp_path.iterdir()) == [path.name, file.name]
  assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_interrupted_save_leaves_nothing(tmp_path, file, weights, monkeypatch):
  def fail(*_):
    raise OSError("No space left on device")

  monkeypatch.setattr("os.replace", fail)
  with pytest.raises(OSError, match="No space"):
    pretrained.save(tmp_path / "b.safetensors", weights)
  assert [p.name for p in tmp_path.iterdir()] == [file.name]
