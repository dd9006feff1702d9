import functools

import jax
import jax.numpy as jnp
import pytest

from pnjax import models
from pnjax import train


@functools.cache
def parameter_paths(name):
  """Returns the paths of all parameters of a classifier on a backbone."""
  model = models.ImageClassifier(
    models.BACKBONES[name](), models.FirstOrderPooling(), num_classes=2
  )
  image = jax.ShapeDtypeStruct((1, 64, 64, 3), jnp.float32)
  return train.parameter_paths(jax.eval_shape(model.init, jax.random.key(0), image))


def is_trainable(name, trainable):
  backbone = models.BACKBONES[name]()
  return models.trainable_parameters(parameter_paths(name), backbone, trainable)


@pytest.mark.parametrize(
  ("name", "trainable", "expected"),
  [
    ("alexnet", "last_two_convs", {"conv4", "conv5"}),
    ("vgg16", "last_two_convs", {"conv5_2", "conv5_3"}),
    ("vgg16", "last_stage", {"conv5_1", "conv5_2", "conv5_3"}),
    (
      "resnet50",
      "last_two_convs",
      {f"layer4.block2.{layer}" for layer in ("conv2", "bn2", "conv3", "bn3")},
    ),
    (
      "resnet18",
      "last_two_convs",
      {f"layer4.block1.{layer}" for layer in ("conv1", "bn1", "conv2", "bn2")},
    ),
    (
      "tiny_resnet",
      "last_two_convs",
      {f"layer2.block0.{layer}" for layer in ("conv2", "bn2", "conv3", "bn3")},
    ),
    ("resnet50", "none", set()),
  ],
)
def test_trainable_layers(name, trainable, expected):
  flags = is_trainable(name, trainable)
  layers = {path.rpartition(".")[0] for path, flag in flags.items() if flag}
  assert layers == {"classifier"} | {f"backbone.{layer}" for layer in expected}


@pytest.mark.parametrize(("name", "stage"), [("resnet50", 4), ("tiny_resnet", 2)])
def test_last_stage(name, stage):
  flags = is_trainable(name, "last_stage")
  for path, flag in flags.items():
    assert flag == path.startswith((f"backbone.layer{stage}.", "classifier.")), path
  assert sum(flags.values()) > 10


@pytest.mark.parametrize("name", models.BACKBONES)
def test_all(name):
  assert all(is_trainable(name, "all").values())


@pytest.mark.parametrize("name", models.BACKBONES)
def test_choices_name_existing_layers_and_stages(name):
  backbone = models.BACKBONES[name]()
  prefixes = {path.removeprefix("backbone.") for path in parameter_paths(name)}
  for choice in backbone.trainable_choices().values():
    for layer in choice.layers:
      assert any(path.startswith(f"{layer}.") for path in prefixes), layer
    if choice.after is not None:
      assert any(path.startswith(f"{choice.after}.") for path in prefixes), choice.after


def test_choices_of_other_backbones_are_refused():
  message = (
    "train.trainable is 'last_stage', expected one of all, none, last_two_convs for "
    "AlexNet."
  )
  with pytest.raises(ValueError) as error:
    is_trainable("alexnet", "last_stage")
  assert str(error.value) == message


def test_last_frozen_stage():
  assert models.last_frozen_stage(models.ResNet50(), "none") is None
  assert models.last_frozen_stage(models.ResNet50(), "last_stage") == "layer3"
  assert models.last_frozen_stage(models.AlexNet(), "last_two_convs") == "conv3"


@pytest.mark.parametrize("trainable", ["all", "last_two_convs"])
def test_features_of_trainable_layers_cannot_be_cached(trainable):
  message = f"{trainable!r}, expected one of none, last_stage for ResNet50"
  with pytest.raises(ValueError, match=message):
    models.last_frozen_stage(models.ResNet50(), trainable)
