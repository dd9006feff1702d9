"""Methods by their names in the tables of the paper, and what they set in a config.

`fop`, `sop`: first- and second-order pooling; `sc`: with spatial coordinates; `spec`:
the Power Normalization acts on eigenvalues. `baseline` is average pooling, the network's
own way to its classifier; `fop` differs from it by scaling vectors to unit length.
"""

import ml_collections

_POWER_NORMS = ("gamma", "maxexp", "asinhe", "sigme")
_BACKBONES = ("resnet50", "alexnet")
_NUM_PIVOTS = 5

METHODS: dict[str, dict] = {
  "baseline": {"order": 1, "normalize": False},
  "fop": {"order": 1},
  **{f"fop_{name}": {"order": 1, "power_norm": name} for name in _POWER_NORMS},
  **{
    f"sop{coordinates}": {"order": 2, "num_pivots": num_pivots}
    for coordinates, num_pivots in (("", 0), ("_sc", _NUM_PIVOTS))
  },
  **{
    f"sop{coordinates}{spec}_{name}": {
      "order": 2,
      "num_pivots": num_pivots,
      "spectral": bool(spec),
      "power_norm": name,
    }
    for coordinates, num_pivots in (("", 0), ("_sc", _NUM_PIVOTS))
    for spec in ("", "_spec")
    for name in _POWER_NORMS
  },
}


def apply(config: ml_collections.ConfigDict, text: str) -> None:
  """Sets the head and the backbone as the text after the colon says.

  Args:
    config: is changed.
    text: a name in `METHODS`, and possibly a backbone: `"sop_sc_sigme,alexnet"`.
  """
  method, *rest = text.split(",")
  if method not in METHODS:
    raise ValueError(f"the method is {method!r}, expected one of {', '.join(METHODS)}.")
  config.head.update(METHODS[method])
  if not rest:
    return
  if len(rest) > 1 or rest[0] not in _BACKBONES:
    raise ValueError(
      f"behind the method stands {','.join(rest)!r}, expected one of "
      f"{', '.join(_BACKBONES)}."
    )
  config.backbone.name = config.backbone.weights = rest[0]
