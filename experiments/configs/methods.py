"""Methods by their names in the tables of the paper, and what they set in a config.

`fop`, `sop`: first- and second-order pooling; `sc`: with spatial coordinates; `spec`:
the Power Normalization acts on eigenvalues. `baseline` is average pooling, the
network's own way to its classifier; `fop` differs from it by scaling vectors to unit
length.
"""

from collections.abc import Mapping

import ml_collections

_POWER_NORMS = ("gamma", "maxexp", "asinhe", "sigme")
_BACKBONES = ("resnet50", "alexnet")
_NUM_PIVOTS = 5
# On pretrained features the classifier learns by SGD, whose rate depends on the length
# of vectors, but not on how many entries they have. Chosen on training pictures of
# FMD; six epochs of FOP on Flower102 would take more (README, Fine-tuned).
_CLASSIFIER_RATE = 2.0
# The same for vectors that are not scaled to unit length: averages of ResNet-50, of
# which the squares add up to about 1000.
_BASELINE_RATE = _CLASSIFIER_RATE / 1000
# Learned parameters of pooling, which are not pretrained, over the backbone.
_HEAD_MULTIPLIER = 10.0


def _head(
  order: int,
  power_norm: str | None = None,
  *,
  coordinates: bool = False,
  spectral: bool = False,
  normalize: bool = True,
  beta: float = 0.0,
) -> dict:
  return {
    "order": order,
    "power_norm": power_norm,
    "num_pivots": _NUM_PIVOTS if coordinates else 0,
    "spectral": spectral,
    "normalize": normalize,
    "beta": beta,
  }


METHODS: dict[str, dict] = {
  "baseline": _head(1, normalize=False),
  "fop": _head(1),
  **{f"fop_{name}": _head(1, name) for name in _POWER_NORMS},
  "sop": _head(2),
  "sop_sc": _head(2, coordinates=True),
  **{
    f"sop{sc}{spec}_{name}": _head(2, name, coordinates=bool(sc), spectral=bool(spec))
    for sc in ("", "_sc")
    for spec in ("", "_spec")
    for name in _POWER_NORMS
  },
  # Of the literature: BCNN, iSQRT-COV (which centers features) and log-Euclidean.
  "bcnn": _head(2, "signed_sqrt"),
  "isqrt_cov": _head(2, "newton_schulz_sqrt", beta=1.0),
  "log_euclidean": _head(2, "matrix_log"),
}


# Fields of the head that `experiments.sweep` found, by backbone and by what stands
# behind `sop_` or `sop_sc_` in the name of a method.
Swept = Mapping[str, Mapping[str, Mapping[str, float]]]


def apply(
  config: ml_collections.ConfigDict, text: str, swept: Swept | None = None
) -> None:
  """Sets the head, its learning rates and the backbone as the text behind a colon says.

  Args:
    config: is changed.
    text: a name in `METHODS`, and possibly a backbone: `"sop_sc_sigme,alexnet"`.
    swept: values for the dataset of the config; suggested ones where it has none.
  """
  method, *rest = text.split(",")
  if method not in METHODS:
    raise ValueError(f"the method is {method!r}, expected one of {', '.join(METHODS)}.")
  if rest and (len(rest) > 1 or rest[0] not in _BACKBONES):
    raise ValueError(
      f"behind the method stands {','.join(rest)!r}, expected one of "
      f"{', '.join(_BACKBONES)}."
    )
  if rest:
    config.backbone.name = config.backbone.weights = rest[0]
  config.head.update(METHODS[method])
  if config.backbone.name in _BACKBONES:
    config.optim.head_multiplier = _HEAD_MULTIPLIER
    normalized = config.head.normalize
    config.optim.classifier_rate = _CLASSIFIER_RATE if normalized else _BASELINE_RATE
  if config.head.order == 2:
    kind = method.removeprefix("sop_").removeprefix("sc_")
    config.head.update((swept or {}).get(config.backbone.name, {}).get(kind, {}))
