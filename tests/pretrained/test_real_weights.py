"""Real weights on real images, from the folder that `PNJAX_TEST_DATA` names."""

import jax
import numpy as np
from PIL import Image
import pytest

from pnjax import pretrained
from pnjax.pretrained import _files
from tests import real_data


@pytest.fixture(scope="module")
def resnet50():
  path = real_data.require("weights", "resnet50_v1_caffe.safetensors")
  return pretrained.load(path)


def chelsea():
  return pytest.importorskip("skimage.data").chelsea()


def coffee():
  return pytest.importorskip("skimage.data").coffee()


def china():
  return pytest.importorskip("sklearn.datasets").load_sample_image("china.jpg")


def crop(image, size=224):
  """Returns the center of an image whose shorter side is resized to 256."""
  height, width = image.shape[:2]
  scale = 256 / min(height, width)
  resized = Image.fromarray(image).resize(
    (round(width * scale), round(height * scale)), Image.Resampling.BILINEAR
  )
  left, top = (resized.width - size) // 2, (resized.height - size) // 2
  return np.array(resized.crop((left, top, left + size, top + size)))[None]


@pytest.mark.parametrize("image, label", [(chelsea, 285), (coffee, 967), (china, 698)])
def test_resnet50_recognises(resnet50, image, label):
  logits = resnet50.logits(resnet50.preprocess(crop(image())))
  assert int(logits[0].argmax()) == label


def test_resnet50_states_its_recipe(resnet50):
  assert resnet50.name == "resnet50_v1_caffe"
  path = real_data.require("weights", "resnet50_v1_caffe.safetensors")
  with pytest.raises(ValueError, match="expected 'resnet50_v1_caffe', which"):
    pretrained.load(path, "resnet50_torchvision")


def test_alexnet_feature_map_equals_pytorch():
  torch = pytest.importorskip("torch")
  import safetensors.torch

  from benchmarks import torch_networks

  path = real_data.require("weights", "alexnet_features.safetensors")
  network = torch_networks.AlexNet().eval()
  network.load_state_dict(safetensors.torch.load_file(path), strict=False)
  image = crop(chelsea())
  pixels = torch.from_numpy(image).permute(0, 3, 1, 2) / 255
  mean, std = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])
  x = (pixels - mean[:, None, None]) / std[:, None, None]
  with torch.inference_mode():
    expected = network.stages(x)["conv5"].permute(0, 2, 3, 1).numpy()

  weights = pretrained.load(path)
  actual = weights.features(weights.preprocess(image))
  assert actual.shape == (1, 6, 6, 256)
  np.testing.assert_allclose(actual, expected, atol=1e-4 * expected.max())


@pytest.mark.slow
def test_vgg16_feature_maps_equal_pytorch():
  torch = pytest.importorskip("torch")
  import safetensors.torch

  from benchmarks import torch_networks

  try:
    path = pretrained.fetch("vgg16")
  except pretrained.UnavailableError as error:
    pytest.skip(str(error))
  network = torch_networks.VGG16().eval()
  network.load_state_dict(safetensors.torch.load_file(path))
  weights = pretrained.load(path)
  x = weights.preprocess(np.concatenate([crop(f()) for f in (chelsea, coffee, china)]))
  with torch.inference_mode():
    feature_maps = network.stages(torch.from_numpy(np.array(x)).permute(0, 3, 1, 2))
  actual = jax.jit(lambda v, x: weights.model.apply(v, x, method="stages"))(
    weights.variables, x
  )
  assert actual.keys() == feature_maps.keys()
  for stage, y in feature_maps.items():
    expected = y.permute(0, 2, 3, 1).numpy()
    assert expected.max() > 0
    for a, e in zip(actual[stage], expected, strict=True):
      np.testing.assert_allclose(a, e, atol=1e-4 * e.max(), err_msg=stage)


@pytest.mark.parametrize(
  "network, name, recipe",
  [
    ("resnet50", "resnet50_v1_caffe.safetensors", "resnet50_v1_caffe"),
    ("alexnet", "alexnet_features.safetensors", "alexnet_torchvision"),
  ],
)
def test_known_files_are_fetched(network, name, recipe, tmp_path):
  file = real_data.require("weights", name)
  path = pretrained.fetch(network, file, tmp_path)
  expected, _ = _files.read(file)
  actual, metadata = _files.read(path)
  assert metadata == {"recipe": recipe}
  assert actual.keys() == expected.keys()
  for key, x in expected.items():
    np.testing.assert_array_equal(actual[key], x.astype(np.float32), strict=True)
