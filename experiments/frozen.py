"""Accuracy of pooling layers on cached features of a frozen backbone."""

from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import os

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from pnjax import data
from pnjax.train import build
from pnjax.train import evaluation
from pnjax.train import feature_cache
from pnjax.train import features
from pnjax.train import heads
from pnjax.train import kernel as kernel_lib
from pnjax.train import ridge
from pnjax.train import workdir as workdir_lib
from pnjax.train.devices import Devices


@dataclasses.dataclass(frozen=True, eq=False)
class Frozen:
  """Pictures of several pairs of splits, each once; those to learn from come first.

  Attributes:
    maps: of all pictures.
    labels: of all pictures.
    num_classes: number of classes.
    num_learned: number of pictures that any pair learns from.
    pairs: positions of what is learned from and of what is evaluated on.
  """

  maps: feature_cache.CachedMaps
  labels: np.ndarray
  num_classes: int
  num_learned: int
  pairs: list[tuple[np.ndarray, np.ndarray]]


def load(
  config: ml_collections.ConfigDict,
  pairs: Sequence[tuple[data.Split, data.Split]],
  cache: str | os.PathLike | None = None,
) -> Frozen:
  """Computes those of the features of splits that are not cached.

  Args:
    config: of the dataset and the backbone.
    pairs: what to learn from, each with what to evaluate on.
    cache: folder of the cached features.
  """
  head = config.head
  if head.learnable or head.reduction or head.rank:
    raise ValueError(
      "head.learnable, head.reduction and head.rank bring weights, which ridge "
      "regression does not learn; train with experiments.main."
    )
  learned = np.unique(np.concatenate([train.indices for train, _ in pairs]))
  others = np.unique(np.concatenate([test.indices for _, test in pairs]))
  order = np.concatenate([learned, np.setdiff1d(others, learned)])
  position = {index: i for i, index in enumerate(order)}
  everything = data.open_split(config.dataset.name, "all", config.dataset.data_dir)
  everything = everything.subset(order)
  backbone = build.backbone(config.backbone)
  build.check_image_size(config, backbone.model)
  (maps,) = features.cached_maps(config, backbone, [everything], Devices(), cache)
  return Frozen(
    maps=maps,
    labels=everything.labels,
    num_classes=len(everything.class_names),
    num_learned=len(learned),
    pairs=[
      tuple(np.array([position[i] for i in split.indices]) for split in pair)
      for pair in pairs
    ],
  )


def relevant(config: ml_collections.ConfigDict) -> dict[str, object]:
  """Returns the fields of a config that accuracies depend on; nothing is trained."""
  groups = ("dataset", "backbone", "head")
  return workdir_lib.relevant({name: config[name].to_dict() for name in groups})


def suggest(config: ml_collections.ConfigDict, frozen: Frozen) -> dict[str, float]:
  """Returns parameters of the head that the config leaves open."""
  if not heads.missing(config.head):
    return {}
  train, _ = frozen.pairs[0]
  some = train[heads.spread_over(len(train))]
  return heads.suggest(config.head, jnp.asarray(frozen.maps[some]))


def kernel(
  config: ml_collections.ConfigDict,
  frozen: Frozen,
  suggested: Mapping[str, float],
  label: str,
) -> np.ndarray:
  """Returns the kernel of all pictures with those to learn from.

  Args:
    config: its `head` pools.
    frozen: the pictures.
    suggested: parameters of the head that the config leaves open.
    label: stands before the progress.
  """
  model = build.classifier(
    config, build.without_weights(config.backbone), frozen.num_classes, suggested
  )

  def pool(maps: jax.Array) -> jax.Array:
    return model.apply({}, maps.astype(jnp.float32), method="pool")

  return kernel_lib.pairwise(pool, frozen.maps, frozen.num_learned, label)


def classify(
  kernel: np.ndarray,
  labels: np.ndarray,
  num_classes: int,
  train: np.ndarray,
  test: np.ndarray,
) -> tuple[np.ndarray, float]:
  """Learns from some pictures and classifies others.

  Returns:
    The predicted classes, and the regularisation that was chosen.
  """
  fitted = ridge.fit(kernel[np.ix_(train, train)], labels[train], num_classes)
  return fitted.predict(kernel[np.ix_(test, train)]), fitted.regularization


def measures(
  labels: np.ndarray, predictions: np.ndarray, num_classes: int
) -> dict[str, float]:
  """Returns `top1` and `mean_per_class`."""
  confusion = evaluation.confusion_matrix(labels, predictions, num_classes)
  summary = evaluation.summarize(0.0, confusion)
  return {name: summary[name] for name in ("top1", "mean_per_class")}
