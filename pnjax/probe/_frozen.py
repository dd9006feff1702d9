"""Pooling layers on the cached features of a config's frozen backbone."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import os
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from pnjax import data
from pnjax import features
from pnjax import models
from pnjax import pretrained
from pnjax import runtime
from pnjax.probe import _kernel
from pnjax.probe import _refit
from pnjax.probe import _ridge
from pnjax.probe._vectors import PooledVectors

_BATCH = 8


@dataclasses.dataclass(frozen=True, eq=False)
class FrozenFeatures:
  """Feature maps of the images of one or more pairs of splits.

  Attributes:
    feature_maps: Feature maps of all images, each once. Images to train on come first.
    labels: Labels of all images.
    num_classes: Number of classes.
    num_train: Number of images that any pair trains on.
    pairs: Positions of the images to train on and to evaluate on, for each pair.
  """

  feature_maps: features.CachedFeatureMaps
  labels: np.ndarray
  num_classes: int
  num_train: int
  pairs: list[tuple[np.ndarray, np.ndarray]]


def load_frozen_features(
  config: ml_collections.ConfigDict,
  pairs: Sequence[tuple[data.Split, data.Split]],
  cache: str | os.PathLike | None = None,
) -> FrozenFeatures:
  """Return the features of pairs of splits, and extract those that are not cached.

  Args:
    config: Run config.
    pairs: Splits to train on, each with the split to evaluate on.
    cache: Folder of all caches.
  """
  pooling = config.pooling
  if pooling.learnable or pooling.reduction or config.classifier.rank:
    raise ValueError(
      "pooling.learnable, pooling.reduction and classifier.rank add weights, which "
      "ridge regression does not learn; train with experiments.main."
    )
  trained_on = np.unique(np.concatenate([train.indices for train, _ in pairs]))
  others = np.unique(np.concatenate([test.indices for _, test in pairs]))
  order = np.concatenate([trained_on, np.setdiff1d(others, trained_on)])
  position = {index: i for i, index in enumerate(order)}
  images = data.open_split(config.dataset.name, "all", config.dataset.data_dir)
  images = images.subset(order)
  backbone = pretrained.backbone_from_config(config.backbone)
  models.check_image_size(config, backbone.model)
  (feature_maps,) = features.cached_feature_maps(
    config, backbone, [images], runtime.Devices(), cache
  )

  def positions(split: data.Split) -> np.ndarray:
    return np.array([position[i] for i in split.indices])

  return FrozenFeatures(
    feature_maps=feature_maps,
    labels=images.labels,
    num_classes=len(images.class_names),
    num_train=len(trained_on),
    pairs=[(positions(train), positions(test)) for train, test in pairs],
  )


def suggest_parameters(
  config: ml_collections.ConfigDict, frozen: FrozenFeatures
) -> dict[str, float]:
  """Suggests the pooling parameters that a config leaves open.

  Args:
    config: Run config.
    frozen: Features; the images that the first pair trains on are looked at.
  """
  train, _ = frozen.pairs[0]
  return models.suggest_pooling_parameters(
    config,
    len(train),
    lambda indices: jnp.asarray(frozen.feature_maps[train[indices]]),
  )


def classify(
  config: ml_collections.ConfigDict,
  frozen: FrozenFeatures,
  suggested: Mapping[str, float],
  label: str,
) -> list[np.ndarray]:
  """Fit ridge regression to the images to train on, and classify those to evaluate on.

  Args:
    config: Run config, whose pooling is applied.
    frozen: Features of the images.
    suggested: Pooling parameters that the config leaves open.
    label: Name of the work in the progress display.

  Returns:
    The predicted classes for each pair.
  """
  if len(frozen.pairs) == 1:
    return [_classify_pair(config, frozen, suggested, label)]
  # Pairs share images, and so the kernel of all images.
  kernel = kernel_of_config(config, frozen, suggested, label)
  return [
    _ridge.fit_and_predict(kernel, frozen.labels, frozen.num_classes, *pair)
    for pair in frozen.pairs
  ]


def _classify_pair(
  config: ml_collections.ConfigDict,
  frozen: FrozenFeatures,
  suggested: Mapping[str, float],
  label: str,
) -> np.ndarray:
  """Do the same for one pair by its weights, which need no kernel of test images."""
  ((train, test),) = frozen.pairs
  vectors = _pooled_vectors(config, frozen, suggested)
  fitted = _refit.refit(vectors.subset(train), frozen.labels[train], frozen.num_classes)
  with runtime.Progress(0, len(test), label) as progress:
    logits = [fitted.classifier(x) for _, x in vectors.subset(test).blocks(progress)]
  return np.argmax(np.concatenate(logits), axis=1)


def kernel_of_config(
  config: ml_collections.ConfigDict,
  frozen: FrozenFeatures,
  suggested: Mapping[str, float],
  label: str,
) -> np.ndarray:
  """Return the kernel of all images with those to train on.

  Pooled vectors are scaled to unit length first.

  Args:
    config: Run config, whose pooling is applied.
    frozen: Features of the images.
    suggested: Pooling parameters that the config leaves open.
    label: Name of the work in the progress display.
  """
  vectors = _pooled_vectors(config, frozen, suggested)
  return _kernel.pooled_kernel(vectors, frozen.num_train, label)


def _pooled_vectors(
  config: ml_collections.ConfigDict,
  frozen: FrozenFeatures,
  suggested: Mapping[str, float],
) -> PooledVectors:
  """Return the pooled vectors of all images, scaled to unit length."""
  backbone = pretrained.untrained_backbone(config.backbone)
  model = models.image_classifier_from_config(
    config, backbone.model, frozen.num_classes, suggested
  ).clone(normalize=True)

  def pool(feature_maps: jax.Array) -> Any:
    return model.apply({}, feature_maps.astype(jnp.float32), method="pool")

  return pool_feature_maps(pool, frozen.feature_maps)


def pool_feature_maps(
  pool: Callable[[jax.Array], jax.Array],
  feature_maps: features.CachedFeatureMaps | np.ndarray,
) -> PooledVectors:
  """Return the pooled vectors of feature maps.

  Args:
    pool: Function from feature maps `[b, ...]` to pooled vectors `[b, D]`, which is
      compiled.
    feature_maps: Feature maps of all images, read by arrays of indices.
  """
  pool = jax.jit(pool)

  def batches(rows: np.ndarray) -> Iterator[np.ndarray]:
    previous = None
    for start in range(0, len(rows), _BATCH):
      batch = feature_maps[rows[start : start + _BATCH]]
      # One batch at a time: concurrent decompositions can hang on a CPU.
      done = jax.block_until_ready(previous)
      previous = _padded(pool, batch)[: len(batch)]
      if done is not None:  # Copied while the next ones are pooled.
        yield np.asarray(done)
    if previous is not None:
      yield np.asarray(previous)

  some = jnp.asarray(feature_maps[np.arange(1)])
  length = jax.eval_shape(pool, some).shape[-1]
  return PooledVectors(batches, np.arange(len(feature_maps)), length)


def _padded(pool, batch: np.ndarray) -> jax.Array:
  """Pools a batch, padded to the one size that is compiled."""
  missing = _BATCH - len(batch)
  full = np.concatenate([batch, np.zeros((missing, *batch.shape[1:]), batch.dtype)])
  return pool(jnp.asarray(full))
