"""The training step, lowered for machines that are not here."""

import pytest

from benchmarks import memory
from experiments.configs import methods
from pnjax import config as config_lib
from tests import platforms


@pytest.mark.parametrize(
  "method",
  [
    "fop",
    "sop_sc_sigme",
    "sop_sc_spec_gamma",
    "sop_sc_spec_maxexp",
    "sop_sc_spec_asinhe",
    "sop_sc_spec_sigme",
    "mpa_lya",
  ],
)
def test_training_step(method):
  config = config_lib.get_config()
  methods.apply(config, method)
  config.backbone.name = "tiny_resnet"
  config.backbone.dtype = "bfloat16"
  if "maxexp" in method:
    config.pooling.eta = 20.0  # Whole, so that products suffice.
  task = memory.make_task(config, num_classes=3)
  shapes = memory.arguments(task, batch=2, size=32)

  def step(state, examples):
    return memory.training_step(task, state, examples)

  assert platforms.lowered(step, *shapes) == platforms.ALL
