r"""Your own images, with ResNet-50 at 224 × 224 and its last stage trainable.

  python -m experiments.prepare folder --source=my_images
  python -m experiments.main --config=experiments/configs/folder.py --workdir=runs/mine

The feature maps before the last stage are computed once, so that an epoch is quick even
on a CPU.
"""

import ml_collections

from experiments.configs import methods
from pnjax import config as config_lib


def get_config(method: str = "sop_sc_sigme") -> ml_collections.ConfigDict:
  """Return the config of a method."""
  config = config_lib.get_config()
  config.dataset.name = "folder"
  config.backbone.weights = "resnet50"
  config.train.batch_size = 8
  config.train.num_epochs = 4
  methods.apply(config, method)
  alexnet = config.backbone.name == "alexnet"
  config.train.trainable = "last_two_convs" if alexnet else "last_stage"
  config.train.cache_features = True
  return config
