import pytest
import safetensors.numpy

from pnjax import pretrained
from tests.pretrained.weight_files import RECIPE
from tests.pretrained.weight_files import random_tensors


@pytest.fixture(scope="package")
def tensors():
  """Random convolutions of AlexNet with torchvision's names."""
  return random_tensors(pretrained.RECIPES[RECIPE], with_classifier=False)


@pytest.fixture
def file(tmp_path, tensors):
  """The same in a file that does not state its recipe."""
  path = tmp_path / "in.safetensors"
  safetensors.numpy.save_file(tensors, path)
  return path


@pytest.fixture
def weights(file):
  return pretrained.load(file, RECIPE)
