import importlib

import pytest

from experiments.configs import flower102
from experiments.configs import fmd
from experiments.configs import methods
from pnjax import models
from pnjax import ops


@pytest.mark.parametrize("name", ["flower102", "fmd", "folder", "food101", "mit67"])
def test_the_pooling_of_all_methods_can_be_built(name):
  module = importlib.import_module(f"experiments.configs.{name}")
  for method in methods.METHODS:
    config = module.get_config(method)
    assert config.is_locked
    models.check_pooling(config)


def test_swept_values_belong_to_a_backbone_and_a_method():
  of = flower102.get_config
  assert of("sop_sc_sigme,alexnet").pooling.beta == 0.6
  assert of("sop_sigme,alexnet").pooling.beta == 0.6
  assert of("sop_sc_sigme").pooling.beta == 0
  assert of("sop_sc_spec_maxexp,alexnet").pooling.eta == 100
  assert of("sop_sc_spec_sigme,alexnet").pooling.beta == 0
  assert fmd.get_config("sop_sc_spec_maxexp").pooling.eta == 5
  for method in methods.METHODS:
    models.check_pooling(of(f"{method},alexnet"))


@pytest.mark.parametrize("name", ["flower102", "fmd", "folder", "food101", "mit67"])
def test_all_methods_train_as_the_paper_does(name):
  module = importlib.import_module(f"experiments.configs.{name}")
  for method in ("baseline", "fop", "sop_sc_sigme", "sop_sc_spec_maxexp"):
    optim = module.get_config(method).optim
    assert (optim.name, optim.decay, optim.momentum) == ("rmsprop", 0.99, 0)
    assert (optim.learning_rate, optim.final_learning_rate) == (1e-4, 1e-6)


def test_the_trace_is_compensated_where_vectors_would_be_short():
  compensated = {
    name for name, fields in methods.METHODS.items() if fields["trace_power"]
  }
  assert compensated == {
    f"sop{sc}_spec_{name}" for sc in ("", "_sc") for name in ("maxexp", "sigme")
  }


@pytest.mark.parametrize(
  "text,match",
  [
    ("sop_sigmoid", "'sop_sigmoid', expected one of.*sop_sc_sigme"),
    ("sop,vgg", "'vgg', expected one of resnet50, resnet18, .*, alexnet"),
    ("sop,alexnet,resnet50", "'alexnet,resnet50', expected one of"),
  ],
)
def test_unknown_methods_and_backbones(text, match):
  with pytest.raises(ValueError, match=match):
    flower102.get_config(text)


def test_every_backbone_may_follow_a_method():
  for name in models.BACKBONES.keys() - {"tiny_resnet"}:
    config = fmd.get_config(f"sop_sc_sigme,{name}")
    assert (config.backbone.name, config.backbone.weights) == (name, name)


def test_there_is_a_method_for_every_power_norm():
  for name in ops.POWER_NORMS:
    for method in ("fop", "sop", "sop_sc", "sop_spec", "sop_sc_spec"):
      assert methods.METHODS[f"{method}_{name}"]["power_norm"] == name
