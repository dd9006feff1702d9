"""Methods by their names in the tables of the paper.

`fop` and `sop` are first- and second-order pooling; `sc` adds spatial coordinates;
`spec` lets the Power Normalization act on eigenvalues. `baseline` is the network's own
average pooling, which for a ResNet is `fop`.
"""

from collections.abc import Mapping
from typing import Any

import ml_collections

from pnjax import ops

_BACKBONES = (
  "resnet50",
  "resnet18",
  "resnet34",
  "resnet101",
  "resnet152",
  "alexnet",
  "vgg16",
  "vit_s16",
  "vit_b16",
  "vit_s14",
  "vit_b14",
)
_NUM_PIVOTS = 5
# Exponent γ of the trace (Remark 6 of the paper) for functions that divide by it and
# act on eigenvalues. Without it their vectors are short (|Ψ|² is at most the rank of
# M), and the softmax layer hardly learns at the rate of the other layers.
_TRACE_POWER = 0.5


def _pooling(
  order: int,
  power_norm: str | None = None,
  *,
  coordinates: bool = False,
  spectral: bool = False,
  beta: float = 0.0,
  dropout: float | str | None = None,
) -> dict[str, Any]:
  return {
    "order": order,
    "power_norm": power_norm,
    "num_pivots": _NUM_PIVOTS if coordinates else 0,
    "trace_power": _trace_power(power_norm) if spectral else None,
    "spectral": spectral,
    "beta": beta,
    "dropout": dropout,
  }


def _trace_power(power_norm: str | None) -> float | None:
  norm = ops.POWER_NORMS.get(power_norm or "")
  return _TRACE_POWER if norm is not None and norm.bounded else None


METHODS: dict[str, dict[str, Any]] = {
  "baseline": _pooling(1),
  "fop": _pooling(1),
  **{
    f"fop_{name}": _pooling(1, name)
    for name, norm in ops.POWER_NORMS.items()
    if norm.first_order
  },
  "sop": _pooling(2),
  "sop_sc": _pooling(2, coordinates=True),
  **{
    f"sop{sc}{spec}_{name}": _pooling(
      2, name, coordinates=bool(sc), spectral=bool(spec)
    )
    for sc in ("", "_sc")
    for spec in ("", "_spec")
    for name, norm in ops.POWER_NORMS.items()
    if norm.spectral or not spec
  },
  # Baselines: BCNN; iSQRT-COV, MPA-Lya and DropCov, which center features; and
  # log-Euclidean.
  "bcnn": _pooling(2, "signed_sqrt"),
  "isqrt_cov": _pooling(2, "newton_schulz_sqrt", beta=1.0),
  "mpa_lya": _pooling(2, "pade_sqrt", beta=1.0),
  "dropcov": _pooling(2, beta=1.0, dropout="adaptive"),
  "log_euclidean": _pooling(2, "matrix_log"),
}


# Pooling fields that `experiments.sweep` found, by backbone and by the part of a
# method's name after `sop_` or `sop_sc_`.
Swept = Mapping[str, Mapping[str, Mapping[str, float]]]


def apply(
  config: ml_collections.ConfigDict, text: str, swept: Swept | None = None
) -> None:
  """Set pooling and backbone as the text after a colon says.

  Args:
    config: Config to change.
    text: A name in `METHODS`, and possibly a backbone: `"sop_sc_sigme,alexnet"`.
    swept: Values for the dataset of the config; others are suggested from features.
  """
  method, *rest = text.split(",")
  if method not in METHODS:
    raise ValueError(f"the method is {method!r}, expected one of {', '.join(METHODS)}.")
  if rest and (len(rest) > 1 or rest[0] not in _BACKBONES):
    raise ValueError(
      f"the method is followed by {','.join(rest)!r}, expected one of "
      f"{', '.join(_BACKBONES)}."
    )
  if rest:
    config.backbone.name = config.backbone.weights = rest[0]
  config.pooling.update(METHODS[method])
  if config.pooling.order == 2:
    kind = method.removeprefix("sop_").removeprefix("sc_")
    config.pooling.update((swept or {}).get(config.backbone.name, {}).get(kind, {}))
