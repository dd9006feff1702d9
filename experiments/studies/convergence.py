"""How many epochs a method takes to learn."""

from collections.abc import Mapping
from collections.abc import Sequence
import os
from typing import Any

from matplotlib import ticker
from matplotlib.axes import Axes
import ml_collections
import numpy as np

from pnjax import runs

# How far from its last value an accuracy counts as converged.
_TOLERANCE = 0.01

# Epochs, each with the top-1 accuracy after it, as in JSON.
Curve = Sequence[Sequence[Any]]


def curve_of_run(
  config: ml_collections.ConfigDict, workdir: str | os.PathLike
) -> Curve:
  """Return the accuracies of the softmax classifier whenever a run was evaluated."""
  evaluations = [r["top1"] for r in runs.read_records(workdir) if r["split"] == "test"]
  return [
    [min(i * config.train.eval_every, config.train.num_epochs), top1]
    for i, top1 in enumerate(evaluations, start=1)
  ]


def epochs_to_converge(curve: Curve) -> int:
  """Return the first epoch from which accuracy stays within a point of its last value.

  >>> epochs_to_converge([(1, 0.5), (2, 0.895), (3, 0.8), (4, 0.895), (5, 0.9)])
  4
  """
  converged, last = curve[-1]
  for epoch, top1 in reversed(curve):
    if abs(top1 - last) > _TOLERANCE:
      break
    converged = epoch
  return converged


def curves_of_rows(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Curve]]:
  """Return the curves of each row of a table, one for each split, if it has some.

  Runs that were only evaluated at their end have none.
  """
  curves = {}
  for row in rows:
    outcomes = row["classifiers"].get("softmax", {}).get("outcomes", [])
    own = [outcome["curve"] for outcome in outcomes if "curve" in outcome]
    if own and all(len(curve) > 1 for curve in own):
      curves[row["name"]] = own
  return curves


def note(rows: Sequence[Mapping[str, Any]]) -> list[str]:
  """Return a note on the epochs that each row of a table took, if it is known."""
  epochs = [
    f"{name} {', '.join(str(epochs_to_converge(curve)) for curve in own)}"
    for name, own in curves_of_rows(rows).items()
  ]
  text = "Epochs after which softmax stays within a point of its last accuracy"
  return [f"{text}: {'; '.join(epochs)}."] if epochs else []


def draw(rows: Sequence[Mapping[str, Any]], ax: Axes) -> None:
  """Draw the mean of the curves of each row of a table."""
  for name, own in curves_of_rows(rows).items():
    epochs, _ = zip(*own[0], strict=True)
    top1 = np.mean([[value for _, value in curve] for curve in own], axis=0)
    ax.plot(epochs, 100 * top1, marker=".", label=name)
  ax.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
  ax.set(xlabel="epoch", ylabel="top-1 accuracy of softmax, %")
  ax.legend(loc="lower right", fontsize="small")
