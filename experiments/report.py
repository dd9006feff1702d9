"""Makes a page of one or several runs, in one file that needs no other.

  python -m experiments.report --workdir=runs/demo
  python -m experiments.report --workdir=runs/demo --workdir=runs/b --output=both.html

Curves, accuracies of classes, the confusion matrix, what is confused most, learned
parameters, eigenvalues before and after the Power Normalization, config and versions.
"""

import argparse
import base64
from collections.abc import Iterator
from collections.abc import Sequence
import dataclasses
import html
import io
import json
import pathlib
from typing import Any

from matplotlib.figure import Figure
import numpy as np

from experiments import cli

_MOST_CONFUSED = 8
_THUMBNAILS = 3
_THUMBNAIL_SIZE = 96
_SPECTRA_FROM = 8
# More classes are not written beside the confusion matrix, nor all in the bar plot.
_MAX_NAMES = 40

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff;
  max-width: 980px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.2rem; }
h3 { font-size: 1rem; margin-bottom: .3rem; }
table { border-collapse: collapse; } td, th { padding: .25rem .8rem; text-align: left; }
th { border-bottom: 2px solid #ccc; } td { border-bottom: 1px solid #eee; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
td.number { white-space: nowrap; }
img { max-width: 100%; } img.thumbnail { width: 96px; height: 96px; object-fit: cover;
  border-radius: 4px; margin-right: 4px; }
pre { background: #f6f6f6; padding: 1rem; overflow-x: auto; font-size: 12px; }
.scroll { overflow-x: auto; } .muted { color: #777; }
"""


def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns its exit status."""
  args = _parse(argv)
  # Imported here, so that --help and a mistyped flag are answered at once.
  from absl import logging

  logging.set_verbosity(logging.ERROR)
  try:
    output = args.output or args.workdir[0] / "report.html"
    if not output.parent.is_dir():
      raise FileNotFoundError(f"there is no folder {output.parent} for the report.")
    runs = [read_run(workdir) for workdir in args.workdir]
    output.write_text("\n".join(_page(runs)), encoding="utf-8")
  except (OSError, ValueError) as error:
    return cli.fail(error)
  print(output)
  return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.report",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument(
    "--workdir",
    action="append",
    required=True,
    type=pathlib.Path,
    help="folder of a run; may be given several times",
  )
  parser.add_argument(
    "--output", type=pathlib.Path, help="file (report.html in the first workdir)"
  )
  return parser.parse_args(argv)


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
  """A finished run.

  Attributes:
    workdir: its folder.
    name: to call it by.
    config: its config.
    result: what `result.json` holds.
    suggested: parameters of the head that the config left open.
    class_names: in the order of the labels.
    labels: of the pictures that it was evaluated on.
    predictions: for the same.
  """

  workdir: pathlib.Path
  name: str
  config: dict[str, Any]
  result: dict[str, Any]
  suggested: dict[str, float]
  class_names: list[str]
  labels: np.ndarray
  predictions: np.ndarray

  @property
  def confusion(self) -> np.ndarray:
    """Number of pictures by label and predicted class."""
    from pnjax.train import evaluation

    return evaluation.confusion_matrix(
      self.labels, self.predictions, len(self.class_names)
    )


def read_run(workdir: pathlib.Path) -> Run:
  """Reads a run, which must be finished."""
  from pnjax.train import restore
  from pnjax.train import workdir as workdir_lib

  if not (workdir / "config.json").exists():
    raise FileNotFoundError(f"{workdir} holds no run: there is no config.json in it.")
  if not (workdir / "result.json").exists():
    raise FileNotFoundError(
      f"the run in {workdir} is not finished: it has no result.json. The command "
      "that began it continues it."
    )
  predictions = np.load(workdir / "predictions.npz")
  return Run(
    workdir=workdir,
    name=workdir.name,
    config=workdir_lib.read_json(workdir / "config.json"),
    result=workdir_lib.read_json(workdir / "result.json"),
    suggested=restore.read_model(workdir)["suggested"],
    class_names=restore.read_class_names(workdir),
    labels=predictions["label"],
    predictions=predictions["prediction"],
  )


def _page(runs: Sequence[Run]) -> Iterator[str]:
  from experiments import curves

  title = " and ".join(run.name for run in runs)
  yield "<!DOCTYPE html><html lang='en'><head><meta charset='utf-8'>"
  yield "<meta name='viewport' content='width=device-width'>"
  yield f"<title>{html.escape(title)}</title><style>{_STYLE}</style></head><body>"
  yield f"<h1>{html.escape(title)}</h1>"
  yield from _results(runs)
  yield "<h2>Curves</h2>"
  labels = [run.name if len(runs) > 1 else "" for run in runs]
  yield _image(
    curves.figure(list(zip(labels, [r.workdir for r in runs], strict=True))),
    "loss and accuracy over steps",
  )
  for run in runs:
    if len(runs) > 1:
      yield f"<h1>{html.escape(run.name)}</h1>"
    yield from _details(run)
  yield "</body></html>"


def _results(runs: Sequence[Run]) -> Iterator[str]:
  yield "<h2>Result</h2><div class='scroll'><table><tr><th>run</th><th>method</th>"
  yield "<th class='number'>top-1</th><th class='number'>mean per class</th>"
  yield "<th class='number'>loss</th><th class='number'>images</th>"
  yield "<th class='number'>time</th></tr>"
  for run in runs:
    result = run.result
    yield (
      f"<tr><td>{html.escape(run.name)}</td><td>{html.escape(_method(run.config))}</td>"
      f"<td class='number'>{result['top1']:.2%}</td>"
      f"<td class='number'>{result['mean_per_class']:.2%}</td>"
      f"<td class='number'>{result['loss']:.4f}</td>"
      f"<td class='number'>{result['num_examples']}</td>"
      f"<td class='number'>{result['wall_seconds']:.0f} s</td></tr>"
    )
  yield "</table></div>"


def _method(config: dict[str, Any]) -> str:
  head = config["head"]
  parts = ["first-order" if head["order"] == 1 else "second-order"]
  if head["num_pivots"]:
    parts.append("coordinates")
  if head["power_norm"]:
    parts.append(("spectral " if head["spectral"] else "") + head["power_norm"])
  return f"{config['backbone']['name']}, {' + '.join(parts)}"


def _details(run: Run) -> Iterator[str]:
  yield "<h2>Classes</h2>"
  yield _image(_class_figure(run), "accuracy of each class")
  yield "<h2>Confusion</h2>"
  yield _image(_confusion_figure(run), "confusion matrix")
  yield from _most_confused(run)
  yield from _model(run)
  about = {k: run.result[k] for k in ("versions", "git_revision", "devices")}
  sections = {"Config": run.config, "Versions": about}
  if run.suggested:
    sections = {"Suggested parameters": run.suggested, **sections}
  for title, fields in sections.items():
    text = json.dumps(fields, indent=2, ensure_ascii=False)
    yield f"<h2>{title}</h2><pre>{html.escape(text)}</pre>"


def _class_figure(run: Run) -> Figure:
  accuracies = {k: v for k, v in run.result["per_class"].items() if v is not None}
  worst_first = sorted(accuracies.items(), key=lambda item: item[1])
  shown = worst_first[:_MAX_NAMES]
  figure = Figure(figsize=(8, 0.24 * len(shown) + 1), layout="constrained")
  ax = figure.subplots()
  ax.barh([name for name, _ in shown], [v for _, v in shown], color="#4878a8")
  ax.set(xlim=(0, 1), xlabel="accuracy")
  if len(shown) < len(worst_first):
    ax.set_title(f"the worst {len(shown)} of {len(worst_first)} classes")
  ax.invert_yaxis()
  ax.margins(y=0.01)
  ax.spines[["top", "right"]].set_visible(False)
  return figure


def _confusion_figure(run: Run) -> Figure:
  confusion = run.confusion
  count = len(confusion)
  shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
  side = 3 + 0.25 * min(count, _MAX_NAMES)
  figure = Figure(figsize=(side + 1, side), layout="constrained")
  ax = figure.subplots()
  image = ax.imshow(shares, cmap="Blues", vmin=0, vmax=1)
  figure.colorbar(image, ax=ax, label="share of the class", shrink=0.8)
  ax.set(xlabel="predicted", ylabel="class")
  if count <= _MAX_NAMES:
    ax.set_xticks(range(count), run.class_names, rotation=90, fontsize="small")
    ax.set_yticks(range(count), run.class_names, fontsize="small")
  return figure


def _most_confused(run: Run) -> Iterator[str]:
  """Yields the pairs that are confused most, with some of the pictures."""
  confusion = run.confusion
  np.fill_diagonal(confusion, 0)
  order = np.argsort(-confusion, axis=None, kind="stable")[:_MOST_CONFUSED]
  pairs = [np.unravel_index(i, confusion.shape) for i in order]
  pairs = [(a, b) for a, b in pairs if confusion[a, b]]
  if not pairs:
    yield "<p>No picture was confused.</p>"
    return
  pictures = _pictures(run)
  yield "<h2>Confused most</h2>"
  for label, predicted in pairs:
    names = [html.escape(run.class_names[i]) for i in (label, predicted)]
    count = confusion[label, predicted]
    yield (
      f"<h3>{names[0]} taken for {names[1]} <span class='muted'>{count} of "
      f"{np.sum(run.labels == label)}</span></h3>"
    )
    members = (run.labels == label) & (run.predictions == predicted)
    for i in np.flatnonzero(members)[:_THUMBNAILS]:
      if pictures is not None:
        yield _thumbnail(pictures[int(i)])
  if pictures is None:
    yield (
      "<p class='muted'>What it was evaluated on is not at hand any more, so no "
      "pictures are shown.</p>"
    )


def _pictures(run: Run):
  """Returns what the run was evaluated on, or None if it is not there any more."""
  from pnjax import data
  from pnjax.train import inputs
  from pnjax.train import workdir as workdir_lib

  dataset = run.config["dataset"]
  test = dataset["test_split"] or inputs.counterpart(dataset["split"])
  try:
    split = data.open_split(dataset["name"], test, dataset["data_dir"])
  except (OSError, ValueError):
    return None
  kept = workdir_lib.read_contents(run.workdir)
  return split if kept["test"] == split.fingerprint else None


def _thumbnail(example: dict[str, Any]) -> str:
  from PIL import Image

  from pnjax import data

  picture = Image.fromarray(data.decode(example["image"]))
  picture.thumbnail((2 * _THUMBNAIL_SIZE, 2 * _THUMBNAIL_SIZE))
  file = io.BytesIO()
  picture.save(file, "JPEG", quality=85)
  return (
    f"<img class='thumbnail' src='{_inline(file.getvalue(), 'jpeg')}' "
    f"alt='{html.escape(example['file'])}' title='{html.escape(example['file'])}'>"
  )


def _model(run: Run) -> Iterator[str]:
  """Yields what the trained model says: its parameters, and spectra."""
  from pnjax import models
  from pnjax.train import restore

  trained = restore.load(run.workdir)
  pooling = trained.model.pooling
  learned = trained.variables["params"].get("pooling", {})
  rows = [(n, v) for n, v in learned.items() if np.ndim(v) == 0]
  if rows:
    yield "<h2>Learned parameters</h2><table><tr><th>parameter</th>"
    yield "<th class='number'>at the start</th><th class='number'>learned</th></tr>"
    for name, value in rows:
      plain = name.removeprefix("log_")
      value = np.exp(value) if plain != name else value
      value = np.clip(value, 0, 1) if plain == "beta" else value  # As it is used.
      start = getattr(pooling, plain)
      if start is None:
        _, start = models.pooling.PARAMETERS[pooling.power_norm]
      yield (
        f"<tr><td>{plain}</td><td class='number'>{start:.4g}</td>"
        f"<td class='number'>{float(value):.4g}</td></tr>"
      )
    yield "</table>"
  pictures = _pictures(run)
  second_order = run.config["head"]["order"] == 2 and pooling.rank is None
  if second_order and pictures is not None:
    yield "<h2>Eigenvalues of the pooled matrix</h2>"
    yield _image(_spectra_figure(trained, pictures), "spectra before and after")


def _spectra_figure(trained, pictures) -> Figure:
  """Draws eigenvalues of M and Ψ, over the largest, averaged over some pictures."""
  from pnjax import data

  count = min(_SPECTRA_FROM, len(pictures))
  some = np.linspace(0, len(pictures) - 1, count, dtype=int)
  batch = [trained.transform(data.decode(pictures[int(i)]["image"])) for i in some]
  maps = trained.features(np.stack(batch))
  figure = Figure(figsize=(7, 3.5), layout="constrained")
  ax = figure.subplots()
  for label, matrices in zip(
    ("M, before", "Ψ, after the Power Normalization"),
    trained.matrices(maps),
    strict=True,
  ):
    values = np.sort(np.abs(np.linalg.eigvalsh(np.asarray(matrices, np.float64))))
    values = np.mean(values[:, ::-1] / values[:, -1:], axis=0)
    ax.plot(np.arange(1, len(values) + 1), np.maximum(values, 1e-9), label=label)
  ax.set(yscale="log", xlabel="number", ylabel="eigenvalue / the largest")
  ax.grid(alpha=0.3)
  ax.spines[["top", "right"]].set_visible(False)
  ax.legend(frameon=False)
  return figure


def _image(figure: Figure, alt: str) -> str:
  file = io.BytesIO()
  figure.savefig(file, format="png", dpi=110)
  return f"<img src='{_inline(file.getvalue(), 'png')}' alt='{html.escape(alt)}'>"


def _inline(content: bytes, kind: str) -> str:
  return f"data:image/{kind};base64,{base64.b64encode(content).decode()}"


if __name__ == "__main__":
  cli.run_plain(main)
