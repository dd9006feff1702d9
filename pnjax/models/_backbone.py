"""What backbones have in common."""

from collections.abc import Callable

from flax import linen as nn
import jax


class Backbone(nn.Module):
  """A network that returns its last map, and on request logits of its own.

  Subclasses have a field `num_classes`, and the methods that raise here.
  """

  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns the last map, `[B, H', W', d]`, of pictures `[B, H, W, 3]`."""
    *_, features = self.stages(x, train).values()
    if self.is_initializing() and self.num_classes is not None:
      self.classify(features)  # So that `init` makes the classifier as well.
    return features

  def logits(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns the logits `[B, num_classes]` in float32."""
    if self.num_classes is None:
      raise ValueError("This network has no classifier: `num_classes` is None.")
    return self.classify(self(x, train))

  def stages(
    self, x: jax.Array, train: bool = False, after: str | None = None
  ) -> dict[str, jax.Array]:
    """Returns the maps after each stage, in order.

    Args:
      x: pictures `[B, H, W, 3]`, or the map after a stage.
      train: whether batch norm may take the statistics of the batch.
      after: the stage whose map `x` is, so that only later ones are computed.
    """
    steps = self.steps(train)
    if after is None:
      _check_pictures(x)
    elif after not in steps:
      raise ValueError(f"`after` is {after!r}, expected one of {', '.join(steps)}.")
    names = list(steps)
    maps = {}
    for name in names[0 if after is None else names.index(after) + 1 :]:
      x = steps[name](x)
      maps[name] = x
    return maps

  def steps(self, train: bool) -> dict[str, Callable[[jax.Array], jax.Array]]:
    """Returns the functions from map to map that the network is made of, by stage."""
    raise NotImplementedError

  def read_every(self, stage: str) -> int:
    """Returns n if the next stage reads every n-th row and column of a stage's map."""
    del stage
    return 1

  def classify(self, features: jax.Array) -> jax.Array:
    """Returns the logits of the last map."""
    raise NotImplementedError


def _check_pictures(x: jax.Array) -> None:
  if x.ndim != 4 or x.shape[-1] != 3:
    raise ValueError(f"`x` has shape {x.shape}, expected pictures [B, H, W, 3].")
