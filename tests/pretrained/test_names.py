import numpy as np
import pytest
import safetensors.numpy

from pnjax import pretrained
from pnjax.pretrained import _names
from tests.pretrained.weight_files import random_tensors

KERAS = "res2a_branch2a/kernel"


@pytest.mark.parametrize(
  "name, shape",
  [("conv1", (3, 3, 2, 5)), ("fc6", (9216, 5)), ("fc7", (4, 5)), ("bn1", (5,))],
)
def test_layouts_are_invertible(rng, name, shape):
  x = rng.standard_normal(shape)
  layout = _names.torch_layout(("params", name, "kernel"), shape)
  np.testing.assert_array_equal(layout.from_torch(layout.to_torch(x)), x)


@pytest.mark.parametrize(
  "name, shape, here, there",
  [
    ("conv1", (3, 4, 2, 5), (2, 3, 1, 4), (4, 1, 2, 3)),
    ("fc6", (9216, 5), ((1 * 6 + 2) * 256 + 3, 4), (4, (3 * 6 + 1) * 6 + 2)),
    ("fc7", (4, 5), (2, 3), (3, 2)),
    ("bn1", (5,), (3,), (3,)),
  ],
)
def test_layouts_of_torch(rng, name, shape, here, there):
  x = rng.standard_normal(shape)
  layout = _names.torch_layout(("params", name, "kernel"), shape)
  assert layout.to_torch(x)[there] == x[here]


def test_keras_names_and_biases(tmp_path):
  tensors = random_tensors(pretrained.RECIPES["resnet50_v1_caffe"], example=KERAS)
  path = tmp_path / "a.safetensors"
  safetensors.numpy.save_file(tensors, path)
  variables = pretrained.load(path, "resnet50_v1_caffe").variables
  params, statistics = variables["params"], variables["batch_stats"]
  for actual, name in [
    (params["conv1"]["kernel"], "conv1/kernel"),
    (params["bn1"]["scale"], "bn_conv1/gamma"),
    (params["layer3"]["block5"]["conv2"]["kernel"], "res4f_branch2b/kernel"),
    (params["layer2"]["block0"]["bn_downsample"]["bias"], "bn3a_branch1/beta"),
    (statistics["layer4"]["block2"]["bn3"]["var"], "bn5c_branch2c/moving_variance"),
    (params["fc"]["kernel"], "fc1000/kernel"),
  ]:
    np.testing.assert_array_equal(actual, tensors[name], err_msg=name)
  np.testing.assert_array_equal(
    statistics["layer2"]["block0"]["bn_downsample"]["mean"],
    tensors["bn3a_branch1/moving_mean"] - tensors["res3a_branch1/bias"],
  )


@pytest.mark.parametrize(
  "architecture, name, expected",
  [("alexnet", KERAS, "resnet50"), ("resnet50", "VGG16_0/Conv_0/kernel", "vgg16")],
)
def test_names_of_other_networks_are_refused(architecture, name, expected):
  conversion = _names.conversion_from(architecture, [name])
  with pytest.raises(ValueError, match=f"is '{architecture}', expected '{expected}'"):
    conversion(("params", "conv1", "kernel"), (11, 11, 3, 64))


def test_vgg16_from_its_package_for_jax(tmp_path):
  recipe = pretrained.RECIPES["vgg16_torchvision"]
  tensors = random_tensors(recipe, example="VGG16_0/Conv_0/kernel")
  assert len(tensors) == 26
  unused = {"NetLinLayer_0/Conv_0/kernel": np.ones((1, 1, 64, 1), np.float32)}
  path = tmp_path / "a.safetensors"
  safetensors.numpy.save_file(tensors | unused, path)
  params = pretrained.load(path, "vgg16_torchvision").variables["params"]
  for name, number in [("conv1_1", 0), ("conv3_1", 4), ("conv5_3", 12)]:
    for leaf, x in params[name].items():
      np.testing.assert_array_equal(x, tensors[f"VGG16_0/Conv_{number}/{leaf}"])


def test_classifier_is_left_out_where_the_network_has_none(tmp_path):
  tensors = random_tensors(pretrained.RECIPES["vgg16_torchvision"])
  path = tmp_path / "a.safetensors"
  classifier = {"classifier.6.bias": np.zeros(1000, np.float32)}
  safetensors.numpy.save_file(tensors | classifier, path)
  weights = pretrained.load(path, "vgg16_torchvision")
  bias = weights.variables["params"]["conv5_3"]["bias"]
  np.testing.assert_array_equal(bias, tensors["features.28.bias"])
  with pytest.raises(ValueError, match="vgg16 have no classifier; use `features`"):
    weights.logits(np.zeros((1, 32, 32, 3), np.float32))
