"""A config with its data and weights opened."""

from __future__ import annotations

from collections.abc import Sequence
import dataclasses
import os

import ml_collections

from pnjax import data
from pnjax import features
from pnjax import models
from pnjax import pretrained
from pnjax import runtime
from pnjax.train import _checks
from pnjax.train import _optimizer
from pnjax.train import _state
from pnjax.train._inputs import Inputs
from pnjax.train._step import Task


@dataclasses.dataclass(frozen=True, eq=False)
class Experiment:
  """A config with its data and weights opened and checked; it never changes.

  Attributes:
    config: Run config.
    devices: Devices that share the work.
    train_split: Images to train on.
    test_split: Images to evaluate on.
    backbone: Backbone and the weights that it starts from.
  """

  config: ml_collections.ConfigDict
  devices: runtime.Devices
  train_split: data.Split
  test_split: data.Split
  backbone: pretrained.BackboneSpec

  @property
  def num_classes(self) -> int:
    """Number of classes."""
    return len(self.train_split.class_names)

  @property
  def epoch_steps(self) -> int:
    """Number of steps per epoch; the last batch may run into the next epoch."""
    return -(-len(self.train_split) // self.config.train.batch_size)

  @property
  def num_steps(self) -> int:
    """Number of steps of the whole run."""
    return self.epoch_steps * self.config.train.num_epochs

  @property
  def cached_stage(self) -> str | None:
    """Stage of the backbone that is cached, if it is not the last one."""
    train = self.config.train
    if not train.cache_features:
      return None
    return models.last_frozen_stage(self.backbone.model, train.trainable)

  @property
  def fingerprints(self) -> dict[str, str | None]:
    """Fingerprints of the images and of the weights that the run starts from."""
    return {
      "train": self.train_split.fingerprint,
      "test": self.test_split.fingerprint,
      "weights": self.backbone.fingerprint,
    }

  def inputs(self, cache: str | os.PathLike | None) -> tuple[Inputs, Inputs]:
    """Return the examples to train on and to evaluate on.

    Args:
      cache: Folder of cached features, for a config that uses them.
    """
    train_views: Sequence[features.CachedFeatureMaps] | None = None
    test_views: Sequence[features.CachedFeatureMaps] | None = None
    if self.config.train.cache_features:
      num_views = self.config.train.cached_views
      *train_views, test_view = features.cached_feature_maps(
        self.config,
        self.backbone,
        [*[self.train_split] * num_views, self.test_split],
        self.devices,
        cache,
        self.cached_stage,
        [*range(num_views), 0],
      )
      test_views = [test_view]
    return (
      Inputs(self.config, self.train_split, self.devices, train_views),
      Inputs(self.config, self.test_split, self.devices, test_views),
    )

  def suggest_parameters(self) -> dict[str, float]:
    """Suggests the pooling parameters that the config leaves open."""
    return models.suggest_pooling_parameters(
      self.config,
      len(self.train_split),
      lambda indices: features.feature_maps(
        self.config, self.backbone, self.train_split.subset(indices)
      ),
    )

  def task(self, suggested: dict[str, float]) -> Task:
    """Return the network with its optimizer.

    Args:
      suggested: Pooling parameters that the config leaves open.
    """
    config = self.config
    schedule = _optimizer.learning_rate(
      config.optim, self.epoch_steps, config.train.num_epochs
    )
    return Task(
      model=models.image_classifier_from_config(
        config, self.backbone.model, self.num_classes, suggested
      ),
      preprocess=self.backbone.preprocess,
      optimizer=_optimizer.make_optimizer(config, schedule),
      label_smoothing=config.train.label_smoothing,
      num_microbatches=config.train.num_microbatches,
      cached_stage=self.cached_stage,
    )

  def initial_state(self, task: Task) -> _state.TrainState:
    """Return the state before the first step."""
    config = self.config
    variables = pretrained.initial_variables(
      task.model, self.backbone, config.dataset.image_size, config.seed
    )
    is_trainable = models.trainable_parameters(
      _state.parameter_paths(variables), self.backbone.model, config.train.trainable
    )
    return _state.create_state(variables, is_trainable, task.optimizer, config.seed)


def open_experiment(
  config: ml_collections.ConfigDict, devices: runtime.Devices
) -> Experiment:
  """Open the data and weights of a config, and check it; nothing is compiled.

  Args:
    config: Run config.
    devices: Devices that share the work.
  """
  _checks.check_config(config, devices.num_hosts)
  train_split, test_split = data.open_splits(config.dataset)
  backbone = pretrained.backbone_from_config(config.backbone)
  models.check_image_size(config, backbone.model)
  # These check how images are read; nothing is read yet.
  Inputs(config, train_split, devices).train_batches()
  Inputs(config, test_split, devices).eval_batches()
  return Experiment(config, devices, train_split, test_split, backbone)
