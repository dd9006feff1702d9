"""A trained classifier from the folder of its run."""

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
from pnjax.train import build
from pnjax.train import state as state_lib
from pnjax.train import workdir as workdir_lib
from pnjax.train.checkpoint import Checkpoints

MODEL_FILE = "model.json"
CLASSES_FILE = "classes.txt"


@dataclasses.dataclass(frozen=True, eq=False)
class Trained:
  """A trained classifier.

  Attributes:
    config: of its run.
    step: number of steps that it was trained for.
    class_names: in the order of its outputs.
    backbone: how it wants its pictures.
    model: the Flax module.
    variables: its weights.
  """

  config: ml_collections.ConfigDict
  step: int
  class_names: tuple[str, ...]
  backbone: build.Backbone
  model: models.Classifier
  variables: dict

  def transform(self, picture: np.ndarray) -> np.ndarray:
    """Returns a picture, uint8 `[H, W, 3]`, as it was seen in evaluation."""
    dataset = self.config.dataset
    return data.eval_transform(
      dataset.image_size, dataset.resize, dataset.num_crops, dataset.crop_side
    )(picture)

  def probabilities(self, pictures: np.ndarray) -> np.ndarray:
    """Returns the probabilities `[B, C]` of what `transform` returned, stacked."""
    return np.asarray(self._probabilities(self.variables, pictures))

  def features(self, pictures: np.ndarray) -> np.ndarray:
    """Returns the maps of what `transform` returned, stacked."""
    return np.asarray(self._features(self.variables, pictures))

  def matrices(self, maps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns M and Ψ of maps, `[B, d', d']`, where pooling is of second order."""
    pooling = self.model.pooling.clone(triangle=False)
    plain = pooling.clone(
      power_norm=None,
      spectral=False,
      learnable=tuple({"beta", "alpha"} & set(pooling.learnable)),
      trace_power=None,
      kappa=None,
      **dict.fromkeys(("power", "eta", "gamma_prime", "eta_prime")),
    )
    params = {"params": self.variables["params"].get("pooling", {})}
    return tuple(np.asarray(p.apply(params, maps)) for p in (plain, pooling))

  @functools.cached_property
  def _probabilities(self):
    return self._compiled(lambda *args: jax.nn.softmax(self.model.apply(*args)))

  @functools.cached_property
  def _features(self):
    return self._compiled(functools.partial(self.model.apply, method="features"))

  def _compiled(self, f):
    """Returns a function of variables and uint8 pictures."""

    @jax.jit
    def compiled(variables, pictures):
      flat = self.backbone.preprocess(pictures.reshape(-1, *pictures.shape[-3:]))
      return f(variables, flat.reshape(pictures.shape))

    return compiled


def read_class_names(workdir: pathlib.Path) -> list[str]:
  """Returns the classes of a run, in the order of its outputs."""
  return (workdir / CLASSES_FILE).read_text(encoding="utf-8").splitlines()


def read_model(workdir: pathlib.Path) -> dict[str, Any]:
  """Returns what a model is made of that is not in the config of its run.

  `recipe` of its weights, and `suggested` parameters of its head.
  """
  return workdir_lib.read_json(workdir / MODEL_FILE)


def load(workdir: str | os.PathLike) -> Trained:
  """Loads the last checkpoint of a run.

  Raises:
    FileNotFoundError: there is no run in this folder, or no checkpoint of it.
  """
  workdir = pathlib.Path(workdir)
  config = workdir_lib.read_config(workdir)
  with Checkpoints(workdir / "checkpoints", read_only=True) as checkpoints:
    step = checkpoints.latest_step
    if step is None:
      raise FileNotFoundError(f"{workdir} has no checkpoint yet.")
    state = checkpoints.read()
  class_names = tuple(read_class_names(workdir))
  made_of = read_model(workdir)
  backbone = (
    build.without_weights(config.backbone)
    if made_of["recipe"] is None
    else build.of_recipe(config.backbone, made_of["recipe"])
  )
  return Trained(
    config=config,
    step=step,
    class_names=class_names,
    backbone=backbone,
    model=build.classifier(config, backbone, len(class_names), made_of["suggested"]),
    variables=state_lib.join(
      state["learned"], state.get("frozen", {}), state.get("batch_stats", {})
    ),
  )
