"""Draws the figures of the documents: `python docs/figures.py runs`.

`pipeline` is drawn with light and with dark lines, for both kinds of pages. `detector`
needs the weights of AlexNet (`python -m experiments.weights fetch alexnet`), the `test`
extra for its image, and the table of Flower102 in `experiments/results`. `textures`
needs a finished run of the demo for each method, in the folder that is given:

  python -m experiments.main --config=experiments/configs/demo.py:sop --workdir=runs/sop
"""

import json
import pathlib
import sys

import jax
import jax.numpy as jnp
from matplotlib import patches
from matplotlib.figure import Figure
import matplotlib.style
import numpy as np
from skimage import data as images

from experiments.studies import paper
from pnjax import data
from pnjax import ops
from pnjax import pretrained
from pnjax import runs

FOLDER = pathlib.Path(__file__).parent / "images"
RESULTS = pathlib.Path(__file__).parents[1] / "experiments" / "results"

# What each step of the pipeline makes, and how it is called in the library.
STEPS = (
  ("image", "448 × 448", "decode"),
  ("feature map", "14 × 14 × 2048", "ResNet50"),
  ("feature vectors", "rectified, β-centered,\nwith coordinates", "append_coordinates"),
  ("co-occurrences M", "(d + 2Z)²", "cooccurrence"),
  ("detections Ψ", "Power Normalization", "sigme"),
  ("pooled vector", "upper triangle", "triu_vectorize"),
  ("class", "softmax or refit", "refit"),
)

# Rows of the table that the detector's figure shows.
ROWS = ("fop", "sop", "sop_sc_sigme", "sop_sc_spec_maxexp")
NUM_CHANNELS = 48

# Methods of the demo, each a run of its own.
METHODS = ("baseline", "sop", "sop_sc_sigme", "sop_sc_spec_maxexp")


def pipeline(colour: str) -> Figure:
  """Return a diagram of the steps from an image to a class.

  Args:
    colour: Colour of lines and text.
  """
  figure = Figure(figsize=(10.8, 1.6))
  figure.patch.set_alpha(0)
  ax = figure.subplots()
  ax.set(xlim=(0, 1.8 * len(STEPS) - 0.2), ylim=(-0.75, 1.05))
  ax.axis("off")
  for i, (name, what, call) in enumerate(STEPS):
    x = 1.8 * i
    box = patches.FancyBboxPatch(
      (x + 0.05, 0), 1.4, 0.9, boxstyle="round,pad=0.04", fill=False, ec=colour
    )
    ax.add_patch(box)
    text = {"ha": "center", "va": "center", "color": colour}
    ax.text(x + 0.75, 0.64, name, weight="bold", size=9, **text)
    ax.text(x + 0.75, 0.26, what, size=8, **text)
    ax.text(x + 0.75, -0.32, call, size=7, family="monospace", **text)
    if i:
      ax.annotate(
        "",
        xy=(x - 0.02, 0.45),
        xytext=(x - 0.27, 0.45),
        arrowprops={"arrowstyle": "->", "color": colour},
      )
  return figure


def detector() -> Figure:
  """Return a photograph, its co-occurrences, their detections, and what those gain."""
  image = images.chelsea()
  matrix, normalized = _matrices(image)
  figure = Figure(figsize=(11, 2.7))
  axes = figure.subplots(1, 4, width_ratios=[1.25, 1, 1, 1.3])
  axes[0].imshow(image)
  axes[0].set_title("an image")
  axes[1].imshow(matrix, cmap="magma")
  axes[1].set_title("co-occurrences M: counts")
  axes[2].imshow(normalized, cmap="magma")
  axes[2].set_title("SigmE of M: detections")
  for ax in axes[:3]:
    ax.grid(False)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
  _draw_gains(axes[3])
  return figure


def _matrices(image: np.ndarray) -> tuple[jax.Array, jax.Array]:
  """Return M and SigmE of M for some of AlexNet's channels, the busiest ones first."""
  network = pretrained.load(pretrained.weights_path("alexnet"))
  square = jax.image.resize(jnp.asarray(image, "f4"), (448, 448, 3), "linear")
  batch = jnp.clip(square, 0, 255).astype("uint8")[None]
  phi = jax.nn.relu(network.features(network.preprocess(batch))[0])
  phi = phi.reshape(-1, phi.shape[-1])
  busiest = jnp.argsort(-phi.mean(axis=0))
  shown = busiest[:: len(busiest) // NUM_CHANNELS][:NUM_CHANNELS]
  m = ops.cooccurrence(phi)
  normalized = ops.sigme(m, ops.suggest_parameters(phi)["eta_prime"])
  return tuple(x[jnp.ix_(shown, shown)] for x in (m, normalized))


def _draw_gains(ax) -> None:
  table = json.loads((RESULTS / "flower102_alexnet_trained.json").read_text("utf-8"))
  rows = [row for row in table["rows"] if row["method"] in ROWS]
  top1 = [row["classifiers"]["refit"]["top1"]["mean"] for row in rows]
  names = [row["name"].removeprefix("SOP+SC+") for row in rows]
  y = np.arange(len(rows))
  ax.plot(top1, y, "o", color="C2", markersize=7)
  for x, i in zip(top1, y, strict=True):
    ax.annotate(f"{x:.1f}", (x, i), (0, 7), textcoords="offset points", ha="center")
  ax.set_yticks(y, names)
  ax.set(xlim=(78, 96), ylim=(len(rows) - 0.5, -0.8))
  ax.set_title("top-1 on Flower102, AlexNet, %")


def textures(folder: pathlib.Path) -> Figure:
  """Return a texture of each class, and which methods recognise it.

  Args:
    folder: Folder of the runs, each named like its method.
  """
  workdirs = [folder / method for method in METHODS]
  _, split = data.open_splits(runs.read_config(workdirs[0]).dataset)
  found = [runs.read_predictions(workdir, "refit") for workdir in workdirs]
  shown = [int(np.flatnonzero(split.labels == c)[0]) for c in np.unique(split.labels)]
  figure = Figure(figsize=(11, 2.9))
  axes = figure.subplots(2, len(shown), height_ratios=[1.6, 1])
  for i, (above, below) in zip(shown, axes.T, strict=True):
    above.imshow(data.decode(split[i]["image"]))
    above.set_title(split.class_names[split.labels[i]].replace("_lying", "\nlying"))
    for y, (labels, predictions) in enumerate(found):
      is_right = labels[i] == predictions[i]
      below.plot(0, y, "o" if is_right else "x", color="C2" if is_right else "C0")
    below.set(xlim=(-1, 1), ylim=(len(METHODS) - 0.5, -0.5))
    for ax in (above, below):
      ax.grid(False)
      ax.set(xticks=[], yticks=[])
      ax.spines[:].set_visible(False)
    above.title.set_size("small")
  names = [
    f"{paper.display_name(method)}, {(labels == predictions).mean():.0%}"
    for method, (labels, predictions) in zip(METHODS, found, strict=True)
  ]
  axes[1, 0].set_yticks(range(len(METHODS)), names)
  axes[1, 0].tick_params(length=0)
  return figure


def main(folder: pathlib.Path) -> None:
  """Draw all figures.

  Args:
    folder: Folder of the runs of the demo.
  """
  with matplotlib.style.context("pnjax.plots"):
    pipeline("0.15").savefig(FOLDER / "pipeline_light.svg", transparent=True)
    pipeline("0.85").savefig(FOLDER / "pipeline_dark.svg", transparent=True)
    detector().savefig(FOLDER / "detector.png", dpi=110)
    textures(folder).savefig(FOLDER / "textures.png", dpi=110)


if __name__ == "__main__":
  main(pathlib.Path(sys.argv[1]))
