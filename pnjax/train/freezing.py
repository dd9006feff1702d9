"""Which layers of a network learn, and which do not."""

from collections.abc import Iterable

# Layers of the backbone that learn, by backbone and by `config.train.freeze`.
_LEARNING_LAYERS: dict[tuple[str, str], tuple[str, ...]] = {
  ("alexnet", "last_two_convs"): ("conv4", "conv5"),
  ("resnet50", "last_two_convs"): (
    "layer4.block2.conv2",
    "layer4.block2.bn2",
    "layer4.block2.conv3",
    "layer4.block2.bn3",
  ),
  ("resnet50", "last_stage"): ("layer4",),
  ("tiny_resnet", "last_two_convs"): (
    "layer2.block0.conv2",
    "layer2.block0.bn2",
    "layer2.block0.conv3",
    "layer2.block0.bn3",
  ),
  ("tiny_resnet", "last_stage"): ("layer2",),
}


def learns(paths: Iterable[str], backbone: str, freeze: str) -> dict[str, bool]:
  """Returns for the path of every parameter whether it learns.

  Args:
    paths: of the parameters of a `Classifier`.
    backbone: its name, as in `config.backbone.name`.
    freeze: as in `config.train.freeze`.
  """
  if freeze in ("all", "backbone"):
    return {path: freeze == "all" or not path.startswith("backbone.") for path in paths}
  if (backbone, freeze) not in _LEARNING_LAYERS:
    known = [f for b, f in _LEARNING_LAYERS if b == backbone]
    raise ValueError(
      f"train.freeze is {freeze!r}, expected one of "
      f"{', '.join(['all', 'backbone', *known])} for {backbone}."
    )
  names = _LEARNING_LAYERS[backbone, freeze]
  layers = tuple(f"backbone.{name}." for name in names)
  return {p: not p.startswith("backbone.") or p.startswith(layers) for p in paths}


def last_frozen_stage(backbone: str, freeze: str) -> str | None:
  """Returns the stage up to which nothing learns; None if that is all of them.

  Args:
    backbone: its name, as in `config.backbone.name`.
    freeze: as in `config.train.freeze`.
  """
  if freeze == "backbone":
    return None
  if (backbone, freeze) not in _LAST_FROZEN_STAGES:
    known = [f for b, f in _LAST_FROZEN_STAGES if b == backbone]
    raise ValueError(
      f"train.cache_features is True, but train.freeze is {freeze!r}, expected one of "
      f"{', '.join(['backbone', *known])} for {backbone}."
    )
  return _LAST_FROZEN_STAGES[backbone, freeze]


_LAST_FROZEN_STAGES = {
  ("alexnet", "last_two_convs"): "conv3",
  ("resnet50", "last_stage"): "layer3",
  ("tiny_resnet", "last_stage"): "layer1",
}
