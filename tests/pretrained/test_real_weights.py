"""Real weights on real pictures; needs `../shared/weights`."""

import pathlib

import numpy as np
from PIL import Image
import pytest

from pnjax import pretrained

WEIGHTS = pathlib.Path(__file__).parents[3] / "shared" / "weights"

pytestmark = pytest.mark.skipif(
  not WEIGHTS.is_dir(), reason=f"needs the pretrained weights in {WEIGHTS}"
)


@pytest.fixture(scope="module")
def resnet50():
  return pretrained.load(WEIGHTS / "resnet50_v1_caffe.safetensors")


def chelsea():
  return pytest.importorskip("skimage.data").chelsea()


def coffee():
  return pytest.importorskip("skimage.data").coffee()


def china():
  return pytest.importorskip("sklearn.datasets").load_sample_image("china.jpg")


def crop(image, size=224):
  """The centre of the picture, of which the shorter side is made 256."""
  height, width = image.shape[:2]
  scale = 256 / min(height, width)
  resized = Image.fromarray(image).resize(
    (round(width * scale), round(height * scale)), Image.Resampling.BILINEAR
  )
  left, top = (resized.width - size) // 2, (resized.height - size) // 2
  return np.array(resized.crop((left, top, left + size, top + size)))[None]


@pytest.mark.parametrize(
  "picture, label", [(chelsea, 285), (coffee, 967), (china, 698)]
)
def test_resnet50_recognises(resnet50, picture, label):
  logits = resnet50.logits(resnet50.preprocess(crop(picture())))
  assert int(logits[0].argmax()) == label


def test_resnet50_states_its_recipe(resnet50):
  assert resnet50.name == "resnet50_v1_caffe"
  with pytest.raises(ValueError, match="states the recipe 'resnet50_v1_caffe'"):
    pretrained.load(WEIGHTS / "resnet50_v1_caffe.safetensors", "resnet50_torchvision")


def test_alexnet_map_equals_pytorch():
  torch = pytest.importorskip("torch")
  import safetensors.torch

  from benchmarks import torch_networks

  path = WEIGHTS / "alexnet_features.safetensors"
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
