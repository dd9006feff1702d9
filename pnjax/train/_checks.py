"""Checks of a config before anything is opened or compiled."""

import ml_collections

from pnjax import config as config_lib
from pnjax import data
from pnjax import models
from pnjax import pretrained
from pnjax import runtime
from pnjax.train import _memory
from pnjax.train import _optimizer


def check_config(config: ml_collections.ConfigDict, num_hosts: int) -> None:
  """Raise ValueError if fields have values that cannot work."""
  config_lib.check_fields(config)
  config_lib.check_values(config)
  train = config.train
  if train.num_epochs == 0 and not config.classifier.refit:
    raise ValueError(
      "train.num_epochs is 0 without classifier.refit, expected 1 or more."
    )
  if train.batch_size % num_hosts:
    raise ValueError(
      f"train.batch_size is {train.batch_size}, expected a multiple of the "
      f"{num_hosts} hosts."
    )
  if train.num_microbatches > train.batch_size:
    raise ValueError(
      f"train.num_microbatches is {train.num_microbatches}, expected at most "
      f"train.batch_size, {train.batch_size}."
    )
  if train.cached_views > 1 and not train.cache_features:
    raise ValueError(
      f"train.cached_views is {train.cached_views}, which needs train.cache_features."
    )
  backbone = pretrained.untrained_backbone(config.backbone).model
  models.trainable_parameters([], backbone, train.trainable)
  schedule = _optimizer.learning_rate(config.optim, steps_per_epoch=1, num_epochs=1)
  _optimizer.make_optimizer(config, schedule)
  models.check_pooling(config)
  if train.cache_features:
    models.last_frozen_stage(backbone, train.trainable)
  if train.cache_features and config.backbone.weights is None:
    raise ValueError(
      "train.cache_features is True, but backbone.weights is None, expected pretrained "
      "weights: random ones are not worth caching."
    )
  _memory.check_images(config, num_hosts)


def check_batch_size(config: ml_collections.ConfigDict, split: data.Split) -> None:
  """Raise ValueError if a batch of training would hold all images several times.

  Batches up to the default size are for any number of images: they run into the next
  epochs.

  Args:
    config: Run config.
    split: Images to train on.
  """
  train = config.train
  largest = max(len(split), config_lib.get_config().train.batch_size)
  if train.num_epochs and train.batch_size > largest:
    raise ValueError(
      f"train.batch_size is {train.batch_size}, but {split.split} has "
      f"{runtime.counted(len(split), 'image')}; expected at most {largest}."
    )
