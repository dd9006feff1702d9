"""Which parameters of a network train, and which are frozen."""

from collections.abc import Iterable
from collections.abc import Mapping
from typing import Any

from flax import traverse_util

from pnjax.models._backbone import Backbone


def trainable_parameters(
  paths: Iterable[str], backbone: Backbone, trainable: str
) -> dict[str, bool]:
  """Return whether each parameter is trainable.

  Args:
    paths: Paths of the parameters of an `ImageClassifier`, such as
      `"backbone.conv1.kernel"`.
    backbone: Backbone of the classifier.
    trainable: `"all"`, `"none"` (the backbone is frozen), or one of the backbone's own
      `trainable_choices`.
  """
  if trainable == "all":
    return dict.fromkeys(paths, True)
  choices = backbone.trainable_choices()
  if trainable != "none" and trainable not in choices:
    raise ValueError(
      f"train.trainable is {trainable!r}, expected one of "
      f"{', '.join(['all', 'none', *choices])} for {type(backbone).__name__}."
    )
  layers = choices[trainable].layers if trainable != "none" else ()
  prefixes = tuple(f"backbone.{layer}." for layer in layers)
  return {p: not p.startswith("backbone.") or p.startswith(prefixes) for p in paths}


def last_frozen_stage(backbone: Backbone, trainable: str) -> str | None:
  """Return the stage up to which a backbone is frozen; None if that is the last one.

  Args:
    backbone: The backbone.
    trainable: As in `trainable_parameters`.
  """
  if trainable == "none":
    return None
  stages = {
    name: c.after for name, c in backbone.trainable_choices().items() if c.after
  }
  if trainable not in stages:
    raise ValueError(
      f"train.cache_features is True, but train.trainable is {trainable!r}, expected "
      f"one of {', '.join(['none', *stages])} for {type(backbone).__name__}."
    )
  return stages[trainable]


def join_variables(
  trainable: Mapping[str, Any],
  frozen: Mapping[str, Any],
  batch_stats: Mapping[str, Any],
) -> dict[str, Any]:
  """Return the variables of a network from its parts.

  Args:
    trainable: Trainable parameters by their paths.
    frozen: Frozen parameters by their paths.
    batch_stats: Statistics of batch norm.
  """
  params = traverse_util.unflatten_dict({**trainable, **frozen}, sep=".")
  return {"params": params, "batch_stats": batch_stats}
