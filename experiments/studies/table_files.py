"""The files of a table: Markdown, JSON and a plot."""

from collections.abc import Mapping
from collections.abc import Sequence
import pathlib
from typing import Any

from matplotlib.figure import Figure
import matplotlib.style
import numpy as np

from experiments.studies import paper
from pnjax import runtime


def write(table: Mapping[str, Any], workdir: pathlib.Path) -> None:
  """Write `table.json`, `table.md` and `table.png`."""
  runtime.write_json(workdir / "table.json", table)
  runtime.write_text(workdir / "table.md", markdown(table))
  with matplotlib.style.context("pnjax.plots"):
    figure(table).savefig(workdir / "table.png", dpi=120)


def markdown(table: Mapping[str, Any]) -> str:
  """Return a table in Markdown."""
  rows = table["rows"]
  reference = paper.display_name(table["reference"])
  lines = [
    f"### {table['dataset']}, {table['backbone']}",
    "",
    f"| method | top-1, % | mean per class, % | gain over {reference} [95%] | paper |",
    "|---|---:|---:|---:|---:|",
  ]
  best = max(row["top1"]["mean"] for row in rows)
  for row in rows:
    gain = row.get("gain")
    difference = (
      f"{gain['mean']:+.2f} [{gain['low']:+.2f}, {gain['high']:+.2f}]" if gain else "–"
    )
    ours = _number(row["top1"])
    if row["top1"]["mean"] == best:
      ours = f"**{ours}**"
    cited = "–" if row["paper"] is None else f"{row['paper']:.2f}"
    lines.append(
      f"| {row['name']} | {ours} | {_number(row['mean_per_class'])} | {difference} "
      f"| {cited} |"
    )
  notes = [*table["notes"], *_suggestions(rows)]
  return "\n".join([*lines, "", *(f"- {note}" for note in notes), ""])


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
  """Return a bar plot of a table, with the figures of the paper."""
  rows = table["rows"]
  figure = Figure(figsize=(8, 0.45 * len(rows) + 1.4))
  ax = figure.subplots()
  y = np.arange(len(rows))
  means = np.array([row["top1"]["mean"] for row in rows])
  deviations = np.array([row["top1"]["deviation"] or 0 for row in rows])
  ax.barh(y, means, 0.6, xerr=deviations, color="C2", ecolor="0.3", label="ours")
  cited = [(row["paper"], i) for i, row in enumerate(rows) if row["paper"] is not None]
  if cited:
    ax.plot(*zip(*cited, strict=True), "D", color="C0", label="paper")
  values = [*(means - deviations), *(means + deviations), *(v for v, _ in cited)]
  ax.set_xlim(max(min(values) - 3, 0), min(max(values) + 1, 100))
  ax.set_yticks(y, [row["name"] for row in rows])
  ax.invert_yaxis()
  ax.grid(False, axis="y")
  ax.set_xlabel("top-1 accuracy, %")
  ax.set_title(f"{table['dataset']}, {table['backbone']}")
  ax.legend(loc="upper left", bbox_to_anchor=(1, 1))
  return figure
