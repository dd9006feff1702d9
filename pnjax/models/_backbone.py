"""The interface that all backbones share."""

from __future__ import annotations

from collections.abc import Callable
import dataclasses
import functools
from typing import TYPE_CHECKING

from flax import linen as nn
import jax

if TYPE_CHECKING:
  from jaxtyping import Array
  from jaxtyping import Float


@dataclasses.dataclass(frozen=True)
class TrainableLayers:
  """A choice of layers that train while the rest of a backbone is frozen.

  Attributes:
    layers: Names of the trainable layers.
    after: Name of the stage before them, whose feature map can be cached; None if the
      first trainable layer is in the middle of a stage.
  """

  layers: tuple[str, ...]
  after: str | None = None


class Backbone(nn.Module, kw_only=True):
  """A network that returns its last feature map and, if asked, its own logits.

  Subclasses implement the methods that raise `NotImplementedError` here. Those with an
  optional classifier have a field `num_classes`; the others need no `classify`.

  Attributes:
    remat: Whether the backward pass recomputes the inside of each stage instead of
      keeping it, which takes less memory and more time.
  """

  remat: bool = False

  def __call__(
    self, x: Float[Array, "B H W 3"], train: bool = False
  ) -> Float[Array, "B h w d"]:
    """Return the last feature map."""
    *_, features = self.stages(x, train).values()
    if self.is_initializing() and self.has_classifier:
      self.classify(features)  # Lets `init` create the classifier as well.
    return features

  def logits(
    self, x: Float[Array, "B H W 3"], train: bool = False
  ) -> Float[Array, "B num_classes"]:
    """Return logits in float32."""
    self.check_classifier()
    return self.classify(self(x, train))

  def stages(
    self, x: jax.Array, train: bool = False, after: str | None = None
  ) -> dict[str, jax.Array]:
    """Return the feature maps of all stages, in order.

    Args:
      x: Images `[B, H, W, 3]`, or the feature map of a stage.
      train: Whether batch norm may use the statistics of the batch.
      after: Name of the stage whose feature map `x` is; only later stages are
        computed then.
    """
    functions = self.stage_functions(train)
    names = list(functions)
    if after is None:
      _check_images(x)
    elif after not in functions:
      raise ValueError(f"`after` is {after!r}, expected one of {', '.join(names)}.")
    feature_maps = {}
    for name in names[0 if after is None else names.index(after) + 1 :]:
      x = self._recomputed(name, train)(x) if self.remat else functions[name](x)
      feature_maps[name] = x
    return feature_maps

  def _recomputed(self, name: str, train: bool) -> Callable[[jax.Array], jax.Array]:
    """Return the function of a stage, of which only the input is kept."""
    stage = nn.remat(lambda module, x: module.stage_functions(train)[name](x))
    return functools.partial(stage, self)

  def stage_functions(self, train: bool) -> dict[str, Callable[[jax.Array], jax.Array]]:
    """Return the functions that compute the stages, by name and in order."""
    raise NotImplementedError

  def stride_after(self, stage: str) -> int:
    """Return the stride at which the next stage reads the feature map of a stage."""
    del stage
    return 1

  def trainable_choices(self) -> dict[str, TrainableLayers]:
    """Return the values of `train.trainable` between "all" and "none"."""
    return {}

  def classify(
    self, features: Float[Array, "B h w d"]
  ) -> Float[Array, "B num_classes"]:
    """Return the logits of the last feature map."""
    raise NotImplementedError

  @property
  def has_classifier(self) -> bool:
    """Whether the network has a classifier of its own."""
    return getattr(self, "num_classes", None) is not None

  def check_classifier(self) -> None:
    """Raise ValueError if the network has no classifier."""
    if not self.has_classifier:
      raise ValueError(
        "This network has no classifier: it has no `num_classes`, or None."
      )


def _check_images(x: jax.Array) -> None:
  if x.ndim != 4 or x.shape[-1] != 3:
    raise ValueError(f"`x` has shape {x.shape}, expected images [B, H, W, 3].")
