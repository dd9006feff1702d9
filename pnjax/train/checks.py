"""What can be said of a config before anything is opened or compiled."""

import ml_collections

from pnjax.train import freezing
from pnjax.train import heads
from pnjax.train import optimizer


def check(config: ml_collections.ConfigDict, num_hosts: int) -> None:
  """Raises ValueError where fields have values that cannot work."""
  train = config.train
  counts = "batch_size", "num_epochs", "accumulate"
  for name in (*counts, "log_every", "eval_every", "checkpoint_every"):
    if train[name] < 1:
      raise ValueError(f"train.{name} is {train[name]}, expected 1 or more.")
  if train.batch_size % num_hosts:
    raise ValueError(
      f"train.batch_size is {train.batch_size}, expected a multiple of the "
      f"{num_hosts} hosts."
    )
  if not 0 <= train.label_smoothing < 1:
    raise ValueError(
      f"train.label_smoothing is {train.label_smoothing}, expected from 0 to below 1."
    )
  freezing.learns([], config.backbone.name, train.freeze)
  optimizer.make(config.optim, optimizer.learning_rate(config.optim, 1, 1))
  heads.check(config.head)
  if train.cache_features and num_hosts > 1:
    raise ValueError(
      f"train.cache_features is True on {num_hosts} hosts, expected one host."
    )
  if train.cache_features:
    freezing.last_frozen_stage(config.backbone.name, train.freeze)
