"""A backbone, a pooling layer and a linear classifier in one module."""

from flax import linen as nn
import jax

from pnjax import ops


class Classifier(nn.Module):
  """Logits of pictures: backbone, pooling, dense layer.

  Pictures are `[B, H, W, 3]`, or `[B, P, H, W, 3]` for P patches of each, which are
  pooled together.

  Attributes:
    backbone: a module from pictures `[B, H, W, 3]` to maps `[B, H', W', d]`, such as
      `ResNet50`.
    pooling: a module from maps to vectors, such as `SecondOrderPooling`.
    num_classes: number of classes.
    normalize: whether pooled vectors are scaled to unit length before the dense
      layer, as is usual for linear classifiers on them.
  """

  backbone: nn.Module
  pooling: nn.Module
  num_classes: int
  normalize: bool = False

  def setup(self):
    """Declares the dense layer."""
    # It starts from zero: its input is new, and millions long.
    self.head = nn.Dense(self.num_classes, kernel_init=nn.initializers.zeros)

  def __call__(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns the logits `[B, num_classes]` in float32."""
    return self.from_features(self.features(x, train))

  def from_features(
    self, features: jax.Array, train: bool = False, after: str | None = None
  ) -> jax.Array:
    """Returns the logits of what `features` returned, without the backbone.

    `init(..., method="from_features")` makes the variables of the pooling and of
    the dense layer alone, under the names that they have in the whole.

    Args:
      features: maps of the backbone, with the patch axis of the pictures.
      train: as in `__call__`.
      after: stage of the backbone that they come from, if it is not the last; the
        stages behind it are then computed.
    """
    if after is not None:
      flat = features.reshape(-1, *features.shape[-3:])
      *_, maps = self.backbone.stages(flat, train, after).values()
      features = maps.reshape(*features.shape[:-3], *maps.shape[1:])
    return self.head(self.pool(features))

  def pooled(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns the vectors that the dense layer gets, `[B, D]`."""
    return self.pool(self.features(x, train))

  def features(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Returns the maps of the backbone, with the patch axis of the pictures."""
    if x.ndim not in (4, 5) or x.shape[-1] != 3:
      raise ValueError(
        f"`x` has shape {x.shape}, expected pictures [B, H, W, 3] or patches "
        "[B, P, H, W, 3]."
      )
    maps = self.backbone(x.reshape(-1, *x.shape[-3:]), train)
    return maps.reshape(*x.shape[:-3], *maps.shape[1:])

  def pool(self, features: jax.Array) -> jax.Array:
    """Returns the vectors that the dense layer gets of what `features` returned."""
    vectors = self.pooling(features)
    return ops.l2_normalize(vectors) if self.normalize else vectors
