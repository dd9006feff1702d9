r"""Food101, ResNet-50 at 448 × 448, as in the paper.

  python -m experiments.main \
    --config=experiments/configs/food101.py:sop_sc_spec_maxexp --workdir=...

The paper reports 81.9 (baseline), 87.5 (SOP+SC+SigmE) and 87.8 (SOP+SC+Spec. MaxExp).
"""

import ml_collections

from experiments.configs import methods
from pnjax import config as config_lib


def get_config(method: str = "sop_sc_sigme") -> ml_collections.ConfigDict:
  """Return the config of a method."""
  config = config_lib.get_config()
  config.dataset.name = "food101"
  config.dataset.num_classes = 101
  config.dataset.image_size = 448
  config.backbone.weights = "resnet50"
  methods.apply(config, method)
  return config
