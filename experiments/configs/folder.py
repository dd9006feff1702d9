r"""Pictures of your own, ResNet-50 at 224 × 224, of which the last stage learns.

  python -m experiments.prepare folder --source=pictures
  python -m experiments.main --config=experiments/configs/folder.py --workdir=runs/mine

What comes before the last stage is computed once, so that an epoch takes little even on
a CPU; there is no augmentation then. The rates are those that were found for the last
stage on FMD at 448 × 448 (README, Fine-tuned).
"""

import ml_collections

from experiments.configs import default
from experiments.configs import methods


def get_config(method: str = "sop_sc_sigme") -> ml_collections.ConfigDict:
  """Returns the config of a method."""
  config = default.get_config()
  config.dataset.name = "folder"
  config.backbone.weights = "resnet50"
  config.optim.learning_rate = 3e-5
  config.optim.final_learning_rate = 3e-6
  config.train.batch_size = 8
  config.train.num_epochs = 4
  methods.apply(config, method)
  alexnet = config.backbone.name == "alexnet"
  config.train.freeze = "last_two_convs" if alexnet else "last_stage"
  config.train.cache_features = True
  return config
