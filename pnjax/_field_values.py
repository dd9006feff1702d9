"""What each field of a config allows; `pnjax.config` explains the fields."""

from collections.abc import Callable
import dataclasses
import math
from typing import Any


@dataclasses.dataclass(frozen=True)
class Allowed:
  """The values that a field allows, besides None where that is its default.

  Attributes:
    words: The values in words, as in "expected ...".
    includes: Whether a value is one of them.
  """

  words: str
  includes: Callable[[Any], bool]


def _one_of(*values: str | int) -> Allowed:
  words = [str(value) for value in values]
  return Allowed(
    " or ".join(words) if len(words) == 2 else f"one of {', '.join(words)}",
    lambda x: type(x) is type(values[0]) and x in values,
  )


def _whole(low: int, high: int | None = None) -> Allowed:
  return Allowed(
    "a whole number, "
    + (f"{low} or more" if high is None else f"from {low} to {high}"),
    lambda x: _is_whole(x) and low <= x and (high is None or x <= high),
  )


def _is_whole(x: Any) -> bool:
  return isinstance(x, int) and not isinstance(x, bool)


def _number(words: str, test: Callable[[float], bool] = lambda x: True) -> Allowed:
  return Allowed(
    f"a finite number{words and f', {words}'}", lambda x: _is_finite(x) and test(x)
  )


def _is_finite(x: Any) -> bool:
  return isinstance(x, int | float) and not isinstance(x, bool) and math.isfinite(x)


_TEXT = Allowed("text", lambda x: isinstance(x, str))
_BOOL = Allowed("True or False", lambda x: isinstance(x, bool))
_COUNT = _whole(1)
_POSITIVE = _number("more than 0", lambda x: x > 0)
_NOT_NEGATIVE = _number("0 or more", lambda x: x >= 0)
_SHARE = _number("from 0 to below 1", lambda x: 0 <= x < 1)

ALLOWED: dict[str, Allowed] = {
  "seed": _whole(0, 2**32 - 1),
  # Names and splits are looked up when the dataset and the weights are opened.
  "dataset.name": _TEXT,
  "dataset.data_dir": _TEXT,
  "dataset.split": _TEXT,
  "dataset.test_split": _TEXT,
  "dataset.fold": _TEXT,
  "dataset.num_classes": _COUNT,
  "dataset.image_size": _COUNT,
  "dataset.num_crops": _one_of(1, 12),
  "dataset.resize_side": _COUNT,
  "dataset.augment": _one_of("flip", "crop", "none"),
  "dataset.resize": _one_of("squash", "center"),
  "backbone.name": _TEXT,
  "backbone.weights": _TEXT,
  "backbone.recipe": _TEXT,
  "backbone.dtype": _one_of("float32", "bfloat16"),
  "backbone.remat": _BOOL,
  "backbone.batch_statistics": _BOOL,
  "pooling.order": _one_of(1, 2),
  "pooling.power_norm": _TEXT,
  "pooling.spectral": _BOOL,
  "pooling.power": _POSITIVE,
  "pooling.eta": _POSITIVE,
  "pooling.gamma_prime": _POSITIVE,
  "pooling.eta_prime": _POSITIVE,
  "pooling.parameter": _number(""),  # The function itself knows its domain.
  "pooling.lam": _NOT_NEGATIVE,
  "pooling.beta": _number("from 0 to 1", lambda x: 0 <= x <= 1),
  "pooling.num_pivots": Allowed(
    "0, or a whole number from 2 to 1000",
    lambda x: _is_whole(x) and (not x or 2 <= x <= 1000),
  ),
  "pooling.alpha": _NOT_NEGATIVE,
  "pooling.sigma": _POSITIVE,
  "pooling.rectify": _BOOL,
  "pooling.reduction": _COUNT,
  "pooling.trace_power": _POSITIVE,
  "pooling.kappa": _number(""),
  "pooling.dropout": Allowed(
    f"{_SHARE.words}, or 'adaptive'", lambda x: x == "adaptive" or _SHARE.includes(x)
  ),
  "pooling.learnable": Allowed(
    "names of parameters, such as ('eta_prime', 'beta')",
    lambda x: isinstance(x, tuple | list) and all(isinstance(n, str) for n in x),
  ),
  "classifier.rank": _COUNT,
  "classifier.weight_decay": _NOT_NEGATIVE,
  "classifier.dropout": _SHARE,
  "classifier.refit": _BOOL,
  "classifier.default": _one_of("refit", "softmax"),
  "optim.name": _one_of("rmsprop", "adam", "sgd"),
  "optim.learning_rate": _POSITIVE,
  "optim.final_learning_rate": _POSITIVE,
  "optim.decay": _SHARE,
  "optim.momentum": _SHARE,
  "optim.weight_decay": _NOT_NEGATIVE,
  "optim.clip_norm": _POSITIVE,
  "train.batch_size": _COUNT,
  "train.num_epochs": _whole(0, 10**6),
  "train.trainable": _TEXT,
  "train.num_microbatches": _COUNT,
  "train.label_smoothing": _SHARE,
  "train.cache_features": _BOOL,
  "train.cached_views": _whole(1, 10**4),
  "train.log_every": _COUNT,
  "train.eval_every": _COUNT,
  "train.checkpoint_every": _COUNT,
  "train.num_threads": _whole(0, 1024),
}
