"""The files of a sweep: Markdown, JSON and a plot."""

from collections.abc import Mapping
import pathlib
from typing import Any

from matplotlib.figure import Figure
import matplotlib.style
import numpy as np

from experiments.studies import table_files
from pnjax import runtime

SUGGESTED = "suggested"


def write(sweep: Mapping[str, Any], workdir: pathlib.Path) -> None:
  """Write `sweep.json`, `sweep.md` and `sweep.png`."""
  runtime.write_json(workdir / "sweep.json", sweep)
  runtime.write_text(workdir / "sweep.md", markdown(sweep))
  with matplotlib.style.context("pnjax.plots"):
    figure(sweep).savefig(workdir / "sweep.png", dpi=120)


def label(name: str, point: Mapping[str, Any]) -> str:
  """Return the name and value of a point."""
  suggested = " (suggested)" if point["value"] == SUGGESTED else ""
  return f"{name} = {point['used']:g}{suggested}"


def accuracies(point: Mapping[str, Any]) -> dict[str, str]:
  """Return the mean accuracy of each classifier with its deviation over folds."""
  return {
    name: f"{np.mean(values):.2f} ± {np.std(values, ddof=1):.2f}"
    for name, values in point["accuracies"].items()
  }


def markdown(sweep: Mapping[str, Any]) -> str:
  """Return a sweep as a table in Markdown."""
  names = list(sweep["points"][0]["accuracies"])
  columns = [f"{name}: top-1, %, over {sweep['num_folds']} folds" for name in names]
  lines = [
    f"| {sweep['param']} | {' | '.join(columns)} |",
    f"|---|{'---:|' * len(names)}",
  ]
  for point in sweep["points"]:
    cells = accuracies(point)
    if point["used"] == sweep["best"]:
      cells[sweep["classifier"]] = f"**{cells[sweep['classifier']]}**"
    first = label("", point).removeprefix(" = ")
    lines.append(f"| {first} | {' | '.join(cells.values())} |")
  text = (
    f"{_title(sweep)}; training images ({sweep['split']}) only; ± is the deviation "
    "over folds."
  )
  lines += ["", text, "", *table_files.command_block(sweep["command"])]
  return "\n".join(lines)


def _title(sweep: Mapping[str, Any]) -> str:
  pooling = sweep["config"]["pooling"]
  order = {1: "first-order", 2: "second-order"}[pooling["order"]]
  spectral = "spectral " if pooling["spectral"] else ""
  method = f"{spectral}{pooling['power_norm']}" if pooling["power_norm"] else order
  return f"{sweep['dataset']}, {sweep['backbone']}, {method}"


def figure(sweep: Mapping[str, Any]) -> Figure:
  """Return a plot of the accuracy over the values of a sweep."""
  figure = Figure(figsize=(5, 3.5))
  ax = figure.subplots()
  given = sorted(
    (p for p in sweep["points"] if p["value"] != SUGGESTED), key=lambda p: p["used"]
  )
  used = [p["used"] for p in given]
  names = list(sweep["points"][0]["accuracies"])
  for i, name in enumerate(names if given else ()):
    values = np.array([p["accuracies"][name] for p in given])
    errors = values.std(axis=1, ddof=1) / np.sqrt(sweep["num_folds"])
    ax.errorbar(
      used,
      values.mean(axis=1),
      errors,
      marker="o",
      capsize=3,
      color=f"C{2 - i}",
      label=name,
    )
  for point in sweep["points"]:
    if point["value"] == SUGGESTED:
      mean = np.mean(point["accuracies"][sweep["classifier"]])
      ax.plot(point["used"], mean, "D", color="C0", label=SUGGESTED)
  if len(ax.get_legend_handles_labels()[1]) > 1:
    ax.legend()
  if given and min(used) > 0 and max(used) / min(used) > 20:
    ax.set_xscale("log")
  ax.set(xlabel=sweep["param"], ylabel="top-1, %, cross-validated", title=_title(sweep))
  return figure
