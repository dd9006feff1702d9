"""Checks of a config before anything is opened or compiled."""

import ml_collections

from pnjax import config as config_lib
from pnjax import models
from pnjax import pretrained
from pnjax import runs
from pnjax.train import _optimizer


def check_config(config: ml_collections.ConfigDict, num_hosts: int) -> None:
  """Raise ValueError if fields have values that cannot work."""
  config_lib.check_fields(config)
  train = config.train
  counts = "batch_size", "num_microbatches", "cached_views"
  for name in (*counts, "log_every", "eval_every", "checkpoint_every"):
    if train[name] < 1:
      raise ValueError(f"train.{name} is {train[name]}, expected 1 or more.")
  if train.num_epochs < 0 or (train.num_epochs == 0 and not config.classifier.refit):
    raise ValueError(
      f"train.num_epochs is {train.num_epochs}, expected 1 or more, or 0 with "
      "classifier.refit."
    )
  if train.batch_size % num_hosts:
    raise ValueError(
      f"train.batch_size is {train.batch_size}, expected a multiple of the "
      f"{num_hosts} hosts."
    )
  for name, share in (
    ("train.label_smoothing", train.label_smoothing),
    ("classifier.dropout", config.classifier.dropout),
  ):
    if not 0 <= share < 1:
      raise ValueError(f"{name} is {share}, expected from 0 to below 1.")
  if config.classifier.default not in runs.CLASSIFIERS:
    raise ValueError(
      f"classifier.default is {config.classifier.default!r}, expected one of "
      f"{', '.join(runs.CLASSIFIERS)}."
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
