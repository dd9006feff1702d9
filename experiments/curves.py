"""Curves of runs: loss and accuracy over their steps."""

from collections.abc import Sequence
import os
import pathlib

from matplotlib.figure import Figure

from pnjax.train import records

_COLOURS = ("#4878a8", "#d1605e", "#6a9f58", "#967662", "#b07aa1", "#76b7b2")


def draw(workdir: str | os.PathLike) -> pathlib.Path:
  """Draws the curves of a run into `curves.png`, and returns its path."""
  path = pathlib.Path(workdir) / "curves.png"
  figure([("", workdir)]).savefig(path, dpi=120)
  return path


def figure(runs: Sequence[tuple[str, str | os.PathLike]]) -> Figure:
  """Returns the curves of some runs, each a label and a folder."""
  figure = Figure(figsize=(9, 3.5), layout="constrained")
  axes = dict(zip(("loss", "top1"), figure.subplots(1, 2), strict=True))
  for i, (label, workdir) in enumerate(runs):
    everything = records.read(workdir)
    for split in ("train", "test"):
      own = [record for record in everything if record["split"] == split]
      # Of one run the splits differ in colour, of several the runs do.
      number = i if len(runs) > 1 else ("train", "test").index(split)
      colour = _COLOURS[number % len(_COLOURS)]
      for name, ax in axes.items():
        ax.plot(
          [record["step"] for record in own],
          [record[name] for record in own],
          color=colour,
          linewidth=1.5,
          alpha=0.4 if split == "train" and len(runs) > 1 else 1,
          marker="o" if split == "test" or len(own) == 1 else "",
          markersize=4,
          label=f"{label} {split}".strip(),
        )
  for (name, ax), title in zip(axes.items(), ("Loss", "Top-1 accuracy"), strict=True):
    ax.set(title=title, xlabel="step")
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    if name == "top1":
      ax.set_ylim(0, 1.02)
  axes["top1"].legend(frameon=False, fontsize="small")
  return figure
