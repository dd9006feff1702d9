"""Curves of runs: loss and accuracy over their steps."""

from collections.abc import Sequence
import os
import pathlib

import matplotlib
from matplotlib import ticker
from matplotlib.figure import Figure
import matplotlib.style

from pnjax.runs._records import read_records


def draw_curves(workdir: str | os.PathLike) -> pathlib.Path:
  """Draw the curves of a run to `curves.png`, and return its path."""
  path = pathlib.Path(workdir) / "curves.png"
  curves_figure([("", workdir)]).savefig(path, dpi=120)
  return path


def curves_figure(runs: Sequence[tuple[str, str | os.PathLike]]) -> Figure:
  """Return a figure of the curves of one or more runs.

  Args:
    runs: Label and folder of each run.
  """
  with matplotlib.style.context("pnjax.plots"):
    figure = Figure(figsize=(9, 3.5))
    axes = dict(zip(("loss", "top1"), figure.subplots(1, 2), strict=True))
    colours = matplotlib.rcParams["axes.prop_cycle"].by_key()["color"]
    for i, (label, workdir) in enumerate(runs):
      records = read_records(workdir)
      if not records:
        for ax in axes.values():
          ax.text(0.5, 0.5, "no records", transform=ax.transAxes, ha="center")
      for split in ("train", "test"):
        own = [record for record in records if record["split"] == split]
        # One run has a colour for each split, several have a colour for each run.
        number = i if len(runs) > 1 else ("train", "test").index(split)
        for name, ax in axes.items():
          ax.plot(
            [record["step"] for record in own],
            [record[name] for record in own],
            color=colours[number % len(colours)],
            alpha=0.4 if split == "train" and len(runs) > 1 else 1,
            marker="o" if split == "test" or len(own) == 1 else "",
            label=f"{label} {split}".strip(),
          )
    axes["loss"].set(title="Loss", xlabel="step")
    axes["top1"].set(title="Top-1 accuracy", xlabel="step", ylim=(0, 1.02))
    axes["top1"].yaxis.set_major_formatter(ticker.PercentFormatter(1))
    for ax in axes.values():
      ax.legend(fontsize="small")
  return figure
