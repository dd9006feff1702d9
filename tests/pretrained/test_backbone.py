import numpy as np
import pytest

from pnjax import config as config_lib
from pnjax import pretrained
from pnjax.pretrained import _files


def test_weights_of_another_network_are_refused(alexnet_weights):
  config = config_lib.get_config().backbone
  config.name, config.weights = "vit_s14", str(alexnet_weights)
  with pytest.raises(ValueError) as error:
    pretrained.backbone_from_config(config)
  assert str(error.value) == (
    f"backbone.weights {alexnet_weights} are weights of alexnet, but backbone.name is "
    "vit_s14, expected weights of one of vit_s14_dinov2, vit_s14_dinov2_registers."
  )


def test_names_without_a_known_file_are_refused():
  config = config_lib.get_config().backbone
  config.name = config.weights = "vit_s14"
  with pytest.raises(ValueError) as error:
    pretrained.backbone_from_config(config)
  assert str(error.value) == (
    "backbone.weights is 'vit_s14', for which no file is known, expected one of "
    f"{', '.join(pretrained.SOURCES)} or the path of a file; set backbone.recipe as "
    "well, one of vit_s14_dinov2, vit_s14_dinov2_registers."
  )


def test_registers_come_with_the_recipe():
  config = config_lib.get_config().backbone
  config.name = "vit_s14"
  assert pretrained.untrained_backbone(config).model.num_registers == 0
  spec = pretrained.untrained_backbone(config, "vit_s14_dinov2_registers")
  assert spec.model.num_registers == 4
  assert spec.preprocessing.mean == (0.485, 0.456, 0.406)
  assert pretrained.RECIPES["vit_s16_augreg"].preprocessing.mean == (0.5, 0.5, 0.5)


def test_batch_statistics_need_batch_norm():
  config = config_lib.get_config().backbone
  config.name, config.batch_statistics = "alexnet", True
  with pytest.raises(ValueError, match="expected False for alexnet, which has no"):
    pretrained.untrained_backbone(config)


def test_preprocessing_accepts_any_leading_axes(rng):
  spec = pretrained.untrained_backbone(config_lib.get_config().backbone)
  images = rng.integers(256, size=(2, 3, 4, 5, 3), dtype=np.uint8)
  x = spec.preprocess(images)
  np.testing.assert_allclose(x, images / 127.5 - 1, atol=1e-6)
  np.testing.assert_array_equal(spec.preprocess(images[0]), x[0])


def test_fingerprints_tell_weights_apart(alexnet_weights):
  config = config_lib.get_config().backbone
  config.name = "alexnet"
  assert pretrained.backbone_from_config(config).fingerprint is None
  config.weights = str(alexnet_weights)
  spec = pretrained.backbone_from_config(config)
  assert spec.fingerprint == _files.digest(spec.variables)


def test_the_digest_depends_on_names_shapes_dtypes_and_values():
  trees = [
    {"a": np.zeros(4)},
    {"b": np.zeros(4)},
    {"a": np.zeros((2, 2))},
    {"a": np.ones(4)},
    {"a": np.zeros(4, np.float32)},
  ]
  assert len({_files.digest(tree) for tree in trees}) == len(trees)
