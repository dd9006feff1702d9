"""A whole network: backbone, pooling and classifier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flax import linen as nn

from pnjax import ops

if TYPE_CHECKING:
  from jaxtyping import Array
  from jaxtyping import Float


class ImageClassifier(nn.Module):
  """Logits of images: a backbone, a pooling layer and a linear classifier.

  Images are `[B, H, W, 3]`, or `[B, P, H, W, 3]` for P patches of each image, which are
  pooled together.

  Attributes:
    backbone: Module from images `[B, H, W, 3]` to feature maps `[B, H', W', d]`, such
      as `ResNet50`.
    pooling: Module from feature maps to pooled vectors, such as `SecondOrderPooling`.
    num_classes: Number of classes.
    normalize: Whether pooled vectors are scaled to unit length before the classifier.
      A classifier that was solved in closed form needs this.
    dropout: Share of the entries of pooled vectors that are dropped in training.
  """

  backbone: nn.Module
  pooling: nn.Module
  num_classes: int
  normalize: bool = False
  dropout: float = 0.0

  def setup(self):
    """Declare the classifier."""
    self.drop = nn.Dropout(self.dropout)
    # It starts at zero: its input is new, and can have millions of entries.
    self.classifier = nn.Dense(self.num_classes, kernel_init=nn.initializers.zeros)

  def __call__(
    self, x: Float[Array, "B *P H W 3"], train: bool = False
  ) -> Float[Array, "B num_classes"]:
    """Return logits in float32."""
    return self.classify(self.pooled(x, train), train)

  def from_features(
    self,
    features: Float[Array, "B *P h w d"],
    train: bool = False,
    after: str | None = None,
  ) -> Float[Array, "B num_classes"]:
    """Return the logits of feature maps.

    `init(..., method="from_features")` creates the variables of the pooling and the
    classifier alone, under the names that they have in the whole network.

    Args:
      features: Feature maps of the backbone, as `features` returns them.
      train: As in `__call__`.
      after: As in `pooled_from_features`.
    """
    return self.classify(self.pooled_from_features(features, train, after), train)

  def pooled_from_features(
    self,
    features: Float[Array, "B *P h w d"],
    train: bool = False,
    after: str | None = None,
  ) -> Float[Array, "B D"]:
    """Return the pooled vectors of feature maps.

    Args:
      features: Feature maps of the backbone, as `features` returns them.
      train: As in `__call__`.
      after: Stage of the backbone whose feature maps these are, if it is not the last;
        later stages are computed first.
    """
    if after is not None:
      flat = features.reshape(-1, *features.shape[-3:])
      *_, last = self.backbone.stages(flat, train, after).values()
      features = last.reshape(*features.shape[:-3], *last.shape[1:])
    return self.pool(features)

  def classify(
    self, vectors: Float[Array, "B D"], train: bool = False
  ) -> Float[Array, "B num_classes"]:
    """Return the logits of pooled vectors."""
    return self.classifier(self.drop(vectors, deterministic=not train))

  def pooled(
    self, x: Float[Array, "B *P H W 3"], train: bool = False
  ) -> Float[Array, "B D"]:
    """Return the pooled vectors of images: the input of the classifier."""
    return self.pool(self.features(x, train))

  def features(
    self, x: Float[Array, "B *P H W 3"], train: bool = False
  ) -> Float[Array, "B *P h w d"]:
    """Return the feature maps of the backbone."""
    if x.ndim not in (4, 5) or x.shape[-1] != 3:
      raise ValueError(
        f"`x` has shape {x.shape}, expected images [B, H, W, 3] or patches "
        "[B, P, H, W, 3]."
      )
    feature_maps = self.backbone(x.reshape(-1, *x.shape[-3:]), train)
    return feature_maps.reshape(*x.shape[:-3], *feature_maps.shape[1:])

  def pool(self, features: Float[Array, "B *P h w d"]) -> Float[Array, "B D"]:
    """Return the pooled vectors of feature maps."""
    vectors = self.pooling(features)
    return ops.l2_normalize(vectors) if self.normalize else vectors
