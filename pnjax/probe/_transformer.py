"""Second-order pooling as a step of a scikit-learn pipeline."""

from __future__ import annotations

import inspect
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pnjax import config as config_lib
from pnjax import models
from pnjax import ops
from pnjax import runtime
from pnjax.probe import _frozen


class PooledFeatures:
  """Transformer from feature maps to pooled vectors, for scikit-learn.

  Feature maps are an array `[n, H, W, d]`, `[n, P, H, W, d]` for P patches of each
  image, or tokens `[n, N, d]`, which have no coordinates.

  >>> feature_maps = np.random.default_rng(0).normal(size=(6, 4, 4, 8))
  >>> PooledFeatures(num_pivots=3).fit_transform(feature_maps).shape
  (6, 105)

  With scikit-learn, `make_pipeline(PooledFeatures(num_pivots=5), LinearSVC())` is a
  classifier of feature maps, and `pooledfeatures__parameter` a name for its searches.

  Attributes:
    pooling_: The pooling layer, after `fit`.
  """

  def __init__(
    self,
    power_norm: str | None = "sigme",
    parameter: float | None = None,
    *,
    spectral: bool = False,
    beta: float = 0.0,
    num_pivots: int = 0,
    alpha: float | None = None,
    sigma: float = 0.3,
    rectify: bool = True,
    normalize: bool = True,
  ):
    """Choose how to pool.

    Args:
      power_norm: As in `models.SecondOrderPooling`.
      parameter: Parameter of the Power Normalization; `fit` suggests one if None.
      spectral: As in `models.SecondOrderPooling`.
      beta: As in `models.SecondOrderPooling`.
      num_pivots: As in `models.SecondOrderPooling`.
      alpha: Weight of the coordinates; `fit` suggests one if None.
      sigma: As in `models.SecondOrderPooling`.
      rectify: As in `models.SecondOrderPooling`.
      normalize: Whether pooled vectors are scaled to unit length.
    """
    self.power_norm = power_norm
    self.parameter = parameter
    self.spectral = spectral
    self.beta = beta
    self.num_pivots = num_pivots
    self.alpha = alpha
    self.sigma = sigma
    self.rectify = rectify
    self.normalize = normalize

  def fit(self, feature_maps: np.ndarray, labels: Any = None) -> PooledFeatures:
    """Suggests the parameters that are None, from some of the feature maps.

    Args:
      feature_maps: Feature maps of the images to train on.
      labels: Not used.
    """
    del labels
    feature_maps = _checked(feature_maps)
    config = config_lib.get_config()
    config.pooling.update(
      power_norm=self.power_norm,
      spectral=self.spectral,
      beta=float(self.beta),
      num_pivots=self.num_pivots,
      alpha=None if self.alpha is None else float(self.alpha),
      sigma=float(self.sigma),
      rectify=self.rectify,
    )
    norm = ops.POWER_NORMS.get(self.power_norm or "")
    if self.parameter is not None:
      if norm is None:
        raise ValueError(
          f"`parameter` is {self.parameter}, but `power_norm` {self.power_norm!r} has "
          "none."
        )
      config.pooling[norm.parameter] = float(self.parameter)
    models.check_pooling(config)
    suggested = models.suggest_pooling_parameters(
      config, len(feature_maps), lambda rows: jnp.asarray(feature_maps[rows])
    )
    self.pooling_ = models.pooling_from_config(config, suggested)
    self._shape = feature_maps.shape[1:]
    return self

  def transform(self, feature_maps: np.ndarray) -> np.ndarray:
    """Return the pooled vectors of feature maps, `[n, D]`.

    Args:
      feature_maps: Feature maps of the shape that `fit` has seen.
    """
    if not self.__sklearn_is_fitted__():
      raise ValueError("`transform` was called before `fit`.")
    feature_maps = _checked(feature_maps)
    if feature_maps.shape[1:] != self._shape:
      raise ValueError(
        f"feature maps have shape {feature_maps.shape[1:]}, expected {self._shape} as "
        "in `fit`."
      )

    def pool(feature_maps: jax.Array) -> Any:
      vectors: Any = self.pooling_.apply({}, feature_maps)
      return ops.l2_normalize(vectors) if self.normalize else vectors

    vectors = _frozen.pool_feature_maps(pool, feature_maps)
    with runtime.Progress(0, len(vectors), "pooled vectors") as progress:
      return vectors.matrix(0, len(vectors), progress)

  def fit_transform(self, feature_maps: np.ndarray, labels: Any = None) -> np.ndarray:
    """Return `fit(feature_maps).transform(feature_maps)`.

    Args:
      feature_maps: Feature maps of the images to train on.
      labels: Not used.
    """
    return self.fit(feature_maps, labels).transform(feature_maps)

  def get_params(self, deep: bool = True) -> dict[str, Any]:
    """Return the arguments that the transformer was made with, by name.

    Args:
      deep: Not used: no argument has arguments of its own.
    """
    del deep
    names = inspect.signature(type(self)).parameters
    return {name: getattr(self, name) for name in names}

  def set_params(self, **params: Any) -> PooledFeatures:
    """Change some of the arguments; `fit` has to follow.

    Args:
      **params: New values by name.
    """
    known = self.get_params()
    for name, value in params.items():
      if name not in known:
        raise ValueError(
          f"there is no parameter {name!r}, expected one of {', '.join(known)}."
        )
      setattr(self, name, value)
    return self

  def __repr__(self) -> str:
    """Return the call that makes the same transformer."""
    arguments = ", ".join(f"{k}={v!r}" for k, v in self.get_params().items())
    return f"{type(self).__name__}({arguments})"

  def __sklearn_is_fitted__(self) -> bool:
    """Return whether `fit` has been called."""
    return hasattr(self, "pooling_")

  def __sklearn_tags__(self) -> Any:
    """Describe the transformer to scikit-learn, which alone calls this."""
    from sklearn import utils

    return utils.Tags(
      estimator_type=None,
      target_tags=utils.TargetTags(required=False),
      transformer_tags=utils.TransformerTags(preserves_dtype=[]),
      input_tags=utils.InputTags(two_d_array=False, three_d_array=True),
    )


def _checked(feature_maps: Any) -> np.ndarray:
  feature_maps = np.asarray(feature_maps)
  if feature_maps.ndim not in (3, 4, 5) or 0 in feature_maps.shape:
    raise ValueError(
      f"feature maps have shape {feature_maps.shape}, expected [n, H, W, d], "
      "[n, P, H, W, d] or tokens [n, N, d], none of them 0."
    )
  if not np.issubdtype(feature_maps.dtype, np.floating):
    raise TypeError(
      f"feature maps have dtype {feature_maps.dtype}, expected floating-point numbers."
    )
  if not np.isfinite(feature_maps).all():
    raise ValueError("feature maps have entries that are NaN or infinite.")
  return feature_maps.astype(np.float32, copy=False)
