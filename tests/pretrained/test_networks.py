import jax
import numpy as np
import pytest
from safetensors.numpy import save_file

from pnjax import models
from pnjax import pretrained
from pnjax.pretrained import _networks


@pytest.fixture
def variables():
  """A backbone that is called as in a network, and another layer."""
  own = models.AlexNet().init(jax.random.key(0), np.zeros((1, 64, 64, 3), np.float32))
  return {"params": {"backbone": own["params"], "classifier": {"bias": np.ones(3)}}}


def save(folder, variables, recipe="alexnet_torchvision"):
  path = folder / pretrained.NETWORK_FILE
  pretrained.save_network(path, variables, "alexnet", recipe)
  return path


def test_the_backbone_is_loaded_from_the_folder(tmp_path, variables):
  path = save(tmp_path, variables)
  loaded = pretrained.load(tmp_path)
  assert loaded.name == pretrained.load(path).name == "alexnet_torchvision"
  expected = {"params": variables["params"]["backbone"]}
  jax.tree.map(np.testing.assert_array_equal, loaded.variables, expected)


def test_the_same_network_is_the_same_file(tmp_path, variables):
  first = save(tmp_path, variables).read_bytes()
  assert save(tmp_path, variables).read_bytes() == first


def test_names_go_there_and_back(variables):
  flat = _networks.flat_variables(variables)
  assert "params/backbone/conv1/kernel" in flat
  again = _networks.nested_variables(flat)
  jax.tree.map(np.testing.assert_array_equal, again, variables)


def test_a_missing_tensor_is_listed(tmp_path, variables):
  del variables["params"]["backbone"]["conv1"]["bias"]
  save(tmp_path, variables)
  with pytest.raises(ValueError, match=r"(?s)1 missing.*params/conv1/bias"):
    pretrained.load(tmp_path)


def test_without_a_recipe_images_are_centered(tmp_path, variables):
  save(tmp_path, variables, recipe=None)
  loaded = pretrained.load(tmp_path)
  assert loaded.name == "custom"
  assert loaded.recipe == pretrained.recipe_without_weights("alexnet")
  assert loaded.recipe.preprocessing == pretrained.CENTERED


def test_a_folder_without_weights(tmp_path):
  with pytest.raises(FileNotFoundError, match=r"expected the folder of a finished run"):
    pretrained.load(tmp_path)


def test_metadata_of_another_version_are_reported(tmp_path):
  path = tmp_path / pretrained.NETWORK_FILE
  save_file({"params/backbone/a/b": np.ones(2)}, path, {"pnjax": '{"format": 3}'})
  with pytest.raises(ValueError, match="is damaged, or of a later version of pnjax"):
    pretrained.load(tmp_path)
