"""The files of a table: Markdown, JSON and a plot."""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
import pathlib
from typing import Any

from matplotlib.figure import Figure
import matplotlib.style
import numpy as np

from experiments.studies import convergence
from experiments.studies import paper
from pnjax import runtime

_COLOURS = {"frozen": "0.6", "softmax": "C1", "refit": "C2"}


def write(table: Mapping[str, Any], workdir: pathlib.Path) -> None:
  """Write `table.json`, `table.md`, `table.png`, and `curves.png` if there are any."""
  runtime.write_json(workdir / "table.json", table)
  runtime.write_text(workdir / "table.md", markdown(table))
  with matplotlib.style.context("pnjax.plots"):
    figure(table).savefig(workdir / "table.png", dpi=120)
    if convergence.curves_of_rows(table["rows"]):
      curves_figure(table).savefig(workdir / "curves.png", dpi=120)


def markdown(table: Mapping[str, Any]) -> str:
  """Return a table in Markdown."""
  rows = table["rows"]
  names, shown = list(rows[0]["classifiers"]), table["shown"]
  reference = paper.display_name(table["reference"])
  metrics = _metrics(rows)
  columns = [f"{name}: {' / '.join(metrics.values())}, %" for name in names]
  columns.append(f"{shown} − {reference} [95%]")
  if "learned" in rows[0]:
    columns.append(f"{shown} − frozen [95%]")
  columns.append("paper")
  lines = [
    f"### {table['dataset']}, {table['backbone']}",
    "",
    f"| method | {' | '.join(columns)} |",
    f"|---|{'---:|' * len(columns)}",
  ]
  best = max(row["classifiers"][n]["top1"]["mean"] for row in rows for n in names)
  for row in rows:
    cells = [_accuracies(row["classifiers"][name], metrics, best) for name in names]
    cells.append(_difference(row["classifiers"][shown].get("gain")))
    if "learned" in row:
      cells.append(_difference(row["learned"]))
    cells.append("–" if row["paper"] is None else f"{row['paper']:.2f}")
    lines.append(f"| {row['name']} | {' | '.join(cells)} |")
  minutes = sum(row["seconds"] for row in rows) / 60
  notes = [
    *table["notes"],
    *_suggestions(rows),
    *convergence.note(rows),
    f"All rows took {minutes:.0f} minutes.",
  ]
  lines += ["", *(f"- {note}" for note in notes), ""]
  return "\n".join([*lines, *command_block(table["command"])])


def command_block(command: str | None) -> list[str]:
  """Return the lines of a block of code with a command, if there is one."""
  return ["```sh", command, "```", ""] if command else []


def _metrics(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
  """Return the metrics to show; one if the classes of the test images are balanced."""
  metrics = {"top1": "top-1", "mean_per_class": "mean per class"}
  classifiers = [own for row in rows for own in row["classifiers"].values()]
  if all(_number(own["top1"]) == _number(own["mean_per_class"]) for own in classifiers):
    del metrics["mean_per_class"]
  return metrics


def _accuracies(
  classifier: Mapping[str, Any], metrics: Iterable[str], best: float
) -> str:
  top1, *others = (_number(classifier[metric]) for metric in metrics)
  if classifier["top1"]["mean"] == best:
    top1 = f"**{top1}**"
  return " / ".join([top1, *others])


def _difference(gain: Mapping[str, float] | None) -> str:
  if gain is None:
    return "–"
  return f"{gain['mean']:+.2f} [{gain['low']:+.2f}, {gain['high']:+.2f}]"


def _suggestions(rows: Sequence[Mapping[str, Any]]) -> list[str]:
  """Return a note about the parameters that were suggested from features, if any."""
  values = [
    f"{row['name']} " + ", ".join(f"{n} = {v:.4g}" for n, v in row["suggested"].items())
    for row in rows
    if row["suggested"]
  ]
  return [f"Suggested parameters: {'; '.join(values)}."] if values else []


def _number(value: Mapping[str, float | None]) -> str:
  if value["deviation"] is None:
    return f"{value['mean']:.2f}"
  return f"{value['mean']:.2f} ± {value['deviation']:.2f}"


def figure(table: Mapping[str, Any]) -> Figure:
  """Return a plot of the top-1 accuracies of a table, and of those of the paper."""
  rows = table["rows"]
  names = list(rows[0]["classifiers"])
  figure = Figure(figsize=(8, 0.45 * len(rows) + 1.4))
  ax = figure.subplots()
  y = np.arange(len(rows))
  for i, name in enumerate(names):
    top1 = [row["classifiers"][name]["top1"] for row in rows]
    ax.errorbar(
      [value["mean"] for value in top1],
      y + 0.15 * (i - (len(names) - 1) / 2),  # Intervals next to each other.
      xerr=[value["deviation"] or 0 for value in top1],
      fmt="o",
      color=_COLOURS[name],
      label=name,
    )
  cited = [(row["paper"], i) for i, row in enumerate(rows) if row["paper"] is not None]
  if cited:
    ax.plot(*zip(*cited, strict=True), "D", color="C0", fillstyle="none", label="paper")
  ax.set_yticks(y, [row["name"] for row in rows])
  ax.invert_yaxis()
  ax.grid(True, axis="y", alpha=0.3)
  ax.set_xlabel("top-1 accuracy, %")
  ax.set_title(f"{table['dataset']}, {table['backbone']}")
  ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
  return figure


def curves_figure(table: Mapping[str, Any]) -> Figure:
  """Return a plot of the accuracies after each epoch."""
  figure = Figure(figsize=(7, 4))
  ax = figure.subplots()
  convergence.draw(table["rows"], ax)
  ax.set_title(f"{table['dataset']}, {table['backbone']}")
  return figure
