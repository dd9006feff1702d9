"""A trained model from the folder of its run."""

from __future__ import annotations

from collections.abc import Callable
import dataclasses
import functools
import os
import pathlib
from typing import Any

import jax
import ml_collections
import numpy as np

from pnjax import data
from pnjax import models
from pnjax import pretrained
from pnjax.runs import _refit
from pnjax.runs import _workdir
from pnjax.runs._checkpoints import Checkpoints


@dataclasses.dataclass(frozen=True, eq=False)
class TrainedModel:
  """A trained model.

  Attributes:
    config: Run config.
    step: Number of steps of training.
    class_names: Classes in the order of the outputs.
    backbone: Backbone and the format of its input.
    model: The network.
    variables: Its weights.
    classifier: Which classifier it has: "refit" or "softmax".
  """

  config: ml_collections.ConfigDict
  step: int
  class_names: tuple[str, ...]
  backbone: pretrained.BackboneSpec
  model: models.ImageClassifier
  variables: dict[str, Any]
  classifier: str = "softmax"

  def transform(self, image: np.ndarray) -> np.ndarray:
    """Return an image, uint8 `[H, W, 3]`, in the size that evaluation uses."""
    dataset = self.config.dataset
    options = data.image_options(dataset)
    return data.eval_transform(resize=dataset.resize, **options)(image)

  def probabilities(self, images: np.ndarray) -> np.ndarray:
    """Return the probabilities `[B, C]` of transformed images."""
    return np.asarray(self._probabilities(self.variables, images))

  def features(self, images: np.ndarray) -> np.ndarray:
    """Return the feature maps of transformed images."""
    return np.asarray(self._features(self.variables, images))

  def matrices(self, feature_maps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return M and Ψ of feature maps, `[B, d', d']`, for second-order pooling."""
    pooling = self.model.pooling.clone(triangle=False)
    none: dict[str, Any] = dict.fromkeys(models.PARAMETER_FIELDS)
    without_norm = pooling.clone(
      power_norm=None,
      spectral=False,
      learnable=tuple({"beta", "alpha"} & set(pooling.learnable)),
      trace_power=None,
      kappa=None,
      **none,
    )
    params = {"params": self.variables["params"].get("pooling", {})}
    m, psi = (
      np.asarray(p.apply(params, feature_maps)) for p in (without_norm, pooling)
    )
    return m, psi

  @functools.cached_property
  def _probabilities(self) -> Callable[..., jax.Array]:
    logits = self._compile("__call__")
    return lambda variables, images: jax.nn.softmax(logits(variables, images))

  @functools.cached_property
  def _features(self) -> Callable[..., jax.Array]:
    return self._compile("features")

  def _compile(self, method: str) -> Callable[..., jax.Array]:
    """Compiles a method of the network as a function of variables and uint8 images."""

    @jax.jit
    def apply(variables, images):
      x = self.backbone.preprocess(images)
      return self.model.apply(variables, x, method=method)

    return apply


def load(workdir: str | os.PathLike, classifier: str | None = None) -> TrainedModel:
  """Load the last checkpoint of a run.

  Args:
    workdir: Folder of the run.
    classifier: "refit", "softmax", or None for the one that `classifier_to_use` names.

  Raises:
    FileNotFoundError: if the folder has no run, or the run has no checkpoint.
  """
  workdir = pathlib.Path(workdir)
  config = _workdir.read_config(workdir)
  with Checkpoints(workdir / "checkpoints", read_only=True) as checkpoints:
    step = checkpoints.latest_step
    if step is None:
      raise FileNotFoundError(f"{workdir} has no checkpoint yet.")
    state = checkpoints.read()
  class_names = tuple(_workdir.read_class_names(workdir))
  info = _workdir.read_model_info(workdir)
  if info is None:
    raise FileNotFoundError(f"{workdir} has no description of its model.")
  backbone = pretrained.untrained_backbone(config.backbone, info.recipe)
  model = models.image_classifier_from_config(
    config, backbone.model, len(class_names), info.suggested
  )
  variables = models.join_variables(
    state["trainable"], state.get("frozen", {}), state.get("batch_stats", {})
  )
  classifier = classifier_to_use(workdir, config, classifier)
  if classifier == "refit":
    refit = _refit.read_refit(workdir, variables)
    layer = {"kernel": refit.kernel, "bias": refit.bias}
    variables = {**variables, "params": {**variables["params"], "classifier": layer}}
    model = model.clone(normalize=True)
  return TrainedModel(
    config=config,
    step=step,
    class_names=class_names,
    backbone=backbone,
    model=model,
    variables=variables,
    classifier=classifier,
  )


def classifier_to_use(
  workdir: str | os.PathLike,
  config: ml_collections.ConfigDict,
  classifier: str | None = None,
) -> str:
  """Return the classifier that predicts: "refit" or "softmax".

  Args:
    workdir: Folder of the run.
    config: Its config, whose `classifier.default` is used if the run has a refit
      classifier.
    classifier: The one that is asked for, if any.
  """
  if classifier is None:
    return config.classifier.default if _refit.has_refit(workdir) else "softmax"
  if classifier not in _refit.CLASSIFIERS:
    raise ValueError(
      f"the classifier is {classifier!r}, expected one of "
      f"{', '.join(_refit.CLASSIFIERS)}."
    )
  return classifier
