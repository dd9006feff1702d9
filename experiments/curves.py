"""Draws the curves of a run: loss and accuracy over its steps."""

import os
import pathlib

from matplotlib.figure import Figure

from pnjax.train import records


def draw(workdir: str | os.PathLike) -> pathlib.Path:
  """Draws the records of a run into `curves.png`, and returns its path."""
  figure = Figure(figsize=(9, 3.5), layout="constrained")
  axes = dict(zip(("loss", "top1"), figure.subplots(1, 2), strict=True))
  everything = records.read(workdir)
  for split in ("train", "test"):
    own = [record for record in everything if record["split"] == split]
    for name, ax in axes.items():
      steps, values = [r["step"] for r in own], [r[name] for r in own]
      ax.plot(steps, values, marker="o" if split == "test" else "", label=split)
  for (name, ax), title in zip(axes.items(), ("Loss", "Top-1 accuracy"), strict=True):
    ax.set(title=title, xlabel="step")
    ax.grid(alpha=0.3)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False)
    if name == "top1":
      ax.set_ylim(0, 1.02)
  path = pathlib.Path(workdir) / "curves.png"
  figure.savefig(path, dpi=120)
  return path
