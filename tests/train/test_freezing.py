import jax
import jax.numpy as jnp
import pytest

from pnjax import models
from pnjax.train import freezing
from pnjax.train import state as state_lib

BACKBONES = {
  "alexnet": models.AlexNet(),
  "resnet50": models.ResNet50(),
  "tiny_resnet": models.TinyResNet(),
}


def paths(backbone):
  """The paths of all parameters of a classifier."""
  model = models.Classifier(
    BACKBONES[backbone], models.FirstOrderPooling(), num_classes=2
  )
  image = jax.ShapeDtypeStruct((1, 64, 64, 3), jnp.float32)
  return state_lib.paths(jax.eval_shape(model.init, jax.random.key(0), image))


@pytest.mark.parametrize(
  ("backbone", "freeze", "expected"),
  [
    ("alexnet", "last_two_convs", {"conv4", "conv5"}),
    (
      "resnet50",
      "last_two_convs",
      {f"layer4.block2.{name}" for name in ("conv2", "bn2", "conv3", "bn3")},
    ),
    (
      "tiny_resnet",
      "last_two_convs",
      {f"layer2.block0.{name}" for name in ("conv2", "bn2", "conv3", "bn3")},
    ),
    ("resnet50", "backbone", set()),
  ],
)
def test_layers_that_learn(backbone, freeze, expected):
  learns = freezing.learns(paths(backbone), backbone, freeze)
  layers = {path.rpartition(".")[0] for path, flag in learns.items() if flag}
  assert layers == {"head"} | {f"backbone.{name}" for name in expected}


@pytest.mark.parametrize(("backbone", "stage"), [("resnet50", 4), ("tiny_resnet", 2)])
def test_the_last_stage_learns(backbone, stage):
  learns = freezing.learns(paths(backbone), backbone, "last_stage")
  for path, flag in learns.items():
    assert flag == path.startswith((f"backbone.layer{stage}.", "head.")), path
  assert len({path for path, flag in learns.items() if flag}) > 10


@pytest.mark.parametrize("backbone", BACKBONES)
def test_everything_learns(backbone):
  assert all(freezing.learns(paths(backbone), backbone, "all").values())


def test_a_stage_that_the_backbone_does_not_have():
  with pytest.raises(ValueError, match=r"'last_stage'.*last_two_convs for alexnet"):
    freezing.learns([], "alexnet", "last_stage")


def test_stages_that_can_be_cached():
  assert freezing.last_frozen_stage("resnet50", "backbone") is None
  assert freezing.last_frozen_stage("resnet50", "last_stage") == "layer3"
  assert freezing.last_frozen_stage("alexnet", "last_two_convs") == "conv3"
  with pytest.raises(ValueError, match="'all', expected one of backbone, last_stage"):
    freezing.last_frozen_stage("resnet50", "all")
