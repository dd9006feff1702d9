import jax
import numpy as np
import pytest

from pnjax import pretrained
from tests.pretrained.weight_files import RECIPE
from tests.pretrained.weight_files import write_package


def test_output_states_its_recipe(file, tmp_path, weights):
  output = tmp_path / "new" / "out.safetensors"
  pretrained.convert(str(file), str(output), RECIPE)
  actual = pretrained.load(output)
  assert actual.name == RECIPE
  jax.tree.map(np.testing.assert_array_equal, actual.variables, weights.variables)


def test_npm_package(tmp_path, tensors, weights):
  package = write_package(tmp_path / "p.tgz", tensors, shard_size=1 << 20)
  output = tmp_path / "out.safetensors"
  pretrained.convert(package, output, RECIPE)
  actual = pretrained.load(output).variables
  jax.tree.map(np.testing.assert_array_equal, actual, weights.variables)


@pytest.mark.parametrize(
  "recipe, message",
  [
    (None, "pass `recipe`, one of"),
    ("resnet50_torchvision", "does not fit 'resnet50_torchvision'"),
  ],
)
def test_failed_conversion_leaves_the_output_alone(file, tmp_path, recipe, message):
  output = tmp_path / "out.safetensors"
  output.write_text("before")
  with pytest.raises(ValueError, match=message):
    pretrained.convert(file, output, recipe)
  with pytest.raises(ValueError, match=message):
    pretrained.convert(file, tmp_path / "new" / "out.safetensors", recipe)
  assert output.read_text() == "before"
  assert sorted(p.name for p in tmp_path.iterdir()) == [file.name, output.name]


def test_only_safetensors_are_written(file, tmp_path):
  with pytest.raises(ValueError, match=r"expected a name in \.safetensors"):
    pretrained.convert(file, tmp_path / "out.npz", RECIPE)
