"""A trained model from the folder of its run."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
import dataclasses
import functools
import os
import pathlib
from typing import Any

from flax import errors
import jax
import ml_collections
import numpy as np

from pnjax import data
from pnjax import models
from pnjax import pretrained
from pnjax.runs import _refit
from pnjax.runs import _workdir
from pnjax.runs._checkpoints import Checkpoints

# Number of images that are computed at once.
_BATCH = 8


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TrainedModel:
  """A trained model.

  Images are uint8 `[H, W, 3]` of any sizes: a sequence of them, or an array
  `[B, H, W, 3]`. They are resized as in evaluation.

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

  def __repr__(self) -> str:
    backbone, dataset = self.config.backbone.name, self.config.dataset.name
    return (
      f"TrainedModel({backbone} on {dataset}, {len(self.class_names)} classes, "
      f"classifier {self.classifier}, step {self.step})"
    )

  def predict(self, images: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """Return the probability of each class, `[B, C]`.

    >>> trained = pnjax.load("runs/demo")  # doctest: +SKIP
    >>> trained.class_names[trained.predict([image])[0].argmax()]  # doctest: +SKIP
    """
    return self._in_batches(self.probabilities, images)

  def features(self, images: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """Return the feature maps of the backbone, `[B, h, w, d]`.

    With 12 crops of an image, they are `[B, 12, h, w, d]`.
    """
    return self._in_batches(self._features, images)

  def pooled(self, images: Sequence[np.ndarray] | np.ndarray) -> np.ndarray:
    """Return the pooled vectors, `[B, D]`: what the classifier sees."""
    return self._in_batches(self._pooled, images)

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
  def transform(self) -> Callable[[np.ndarray], np.ndarray]:
    """Function from a uint8 image `[H, W, 3]` to the one that evaluation sees."""
    dataset = self.config.dataset
    options = data.image_options(dataset)
    return data.eval_transform(resize=dataset.resize, **options)

  def _in_batches(
    self,
    compute: Callable[..., jax.Array],
    images: Sequence[np.ndarray] | np.ndarray,
  ) -> np.ndarray:
    """Return a function of images, which is compiled for one image or for a batch."""
    _check_images(images)
    size = 1 if len(images) == 1 else _BATCH
    results = []
    for start in range(0, len(images), size):
      batch = np.stack(
        [self.transform(np.asarray(x)) for x in images[start : start + size]]
      )
      missing = ((0, size - len(batch)), *[(0, 0)] * (batch.ndim - 1))
      result = compute(self.variables, np.pad(batch, missing))
      results.append(np.asarray(result[: len(batch)]))
    return np.concatenate(results)

  @functools.cached_property
  def probabilities(self) -> Callable[..., jax.Array]:
    """Function from variables and transformed images `[B, ...]` to probabilities."""
    logits = self._compile("__call__")
    return lambda variables, images: jax.nn.softmax(logits(variables, images))

  @functools.cached_property
  def _features(self) -> Callable[..., jax.Array]:
    return self._compile("features")

  @functools.cached_property
  def _pooled(self) -> Callable[..., jax.Array]:
    return self._compile("pooled")

  def _compile(self, method: str) -> Callable[..., jax.Array]:
    """Compiles a method of the network as a function of variables and uint8 images."""

    @jax.jit
    def apply(variables, images):
      x = self.backbone.preprocess(images)
      try:
        return self.model.apply(variables, x, method=method)
      except errors.FlaxError as error:
        raise ValueError(
          "the weights of the run do not fit the network that its config.json "
          f"describes, so one of them has changed: {error}"
        ) from error

    return apply


def _check_images(images: Sequence[np.ndarray] | np.ndarray) -> None:
  if not isinstance(images, (Sequence, np.ndarray, jax.Array)):
    raise TypeError(
      f"The images are of type {type(images).__name__}, expected a list of uint8 "
      "images [H, W, 3], or an array [B, H, W, 3]."
    )
  if not isinstance(images, Sequence) and images.shape[2:] == (3,):
    raise ValueError(
      f"The images are one array of shape {images.shape}, expected a list of images "
      "[H, W, 3], or an array [B, H, W, 3]; put a single image into a list."
    )
  if not len(images):
    raise ValueError("There are no images.")
  for i, image in enumerate(images):
    dtype, shape = getattr(image, "dtype", type(image).__name__), np.shape(image)
    if dtype != np.uint8 or len(shape) != 3 or shape[-1] != 3 or 0 in shape:
      raise ValueError(
        f"Image {i} is {dtype} of shape {shape}, expected uint8 [H, W, 3]; several "
        "images are a list of them, or [B, H, W, 3]."
      )


def load(workdir: str | os.PathLike, classifier: str | None = None) -> TrainedModel:
  """Load the last checkpoint of a run.

  Args:
    workdir: Folder of the run.
    classifier: "refit", "softmax", or None for the one that `classifier_to_use` names.

  Raises:
    FileNotFoundError: if the folder has no run, or the run has no checkpoint.
    ValueError: if a file of the run is damaged.
  """
  workdir = pathlib.Path(workdir)
  config = _workdir.read_config(workdir)
  models.check_pooling(config)
  with Checkpoints(workdir / "checkpoints", read_only=True) as checkpoints:
    step, state = checkpoints.check(), checkpoints.read()
  class_names = tuple(_workdir.read_class_names(workdir))
  info = _workdir.require_model_info(workdir)
  backbone = pretrained.untrained_backbone(config.backbone, info.recipe)
  model = models.image_classifier_from_config(
    config, backbone.model, len(class_names), info.suggested
  )
  variables = models.join_variables(
    state["trainable"], state.get("frozen", {}), state.get("batch_stats", {})
  )
  num_outputs = len(variables["params"]["classifier"]["bias"])
  if num_outputs != len(class_names):
    raise ValueError(
      f"{workdir} has {len(class_names)} class names for the {num_outputs} outputs of "
      f"its network. {_workdir.repair_advice(workdir, 'classes.txt')}"
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
    if _refit.has_refit(workdir):
      return config.classifier.default
    if "refit" in (_workdir.read_result(workdir) or {}):
      raise FileNotFoundError(
        f"{workdir} lacks the file of its refit classifier; `python -m "
        f"experiments.refit --workdir={workdir}` writes it again, and the classifier "
        "softmax does without it."
      )
    return "softmax"
  if classifier not in _refit.CLASSIFIERS:
    raise ValueError(
      f"the classifier is {classifier!r}, expected one of "
      f"{', '.join(_refit.CLASSIFIERS)}."
    )
  return classifier
