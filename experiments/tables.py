"""Tables of the paper: their rows, computed or kept, and how they are written."""

from collections.abc import Mapping
from collections.abc import Sequence
import functools
import os
import pathlib
from typing import Any

from matplotlib.figure import Figure
import ml_collections
import numpy as np
from scipy import stats

from experiments import frozen as frozen_lib
from experiments import kept
from experiments import paper
from experiments import variants
from experiments.configs import methods
from pnjax import data
from pnjax import train
from pnjax.train import inputs
from pnjax.train import kernel
from pnjax.train import workdir as workdir_lib

_NAMES = paper.ROWS | paper.OTHERS
_CONFIDENCE = 0.95
_RESAMPLES = 10_000

# Results of one row: predictions for each split, and what led to them.
Row = dict[str, Any]


def make(
  config_of: variants.ConfigOf,
  workdir: str | os.PathLike,
  *,
  rows: Sequence[str],
  splits: Sequence[str] | None = None,
  finetune: bool = False,
  cache: str | None = None,
  overrides: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
  """Computes the rows that are missing, and writes the table.

  Args:
    config_of: from a method to its config.
    workdir: folder for rows and tables.
    rows: methods.
    splits: to learn from.
    finetune: whether to train end to end instead of from cached features.
    cache: folder of cached features.
    overrides: fields of all configs that were set, to be named below the table.

  Returns:
    What `table.json` holds.
  """
  workdir = pathlib.Path(workdir)
  if not any(rows):
    raise ValueError("--rows is empty, expected methods.")
  unknown = [method for method in rows if method not in methods.METHODS]
  if unknown:
    known = ", ".join(methods.METHODS)
    raise ValueError(f"--rows has {', '.join(unknown)}, expected some of {known}.")
  config = config_of(rows[0])
  if config.backbone.name == "alexnet":
    # Its own way goes through fully connected layers, which are not at hand.
    rows = [method for method in rows if method != "baseline"]
    if not rows:
      raise ValueError("--rows is baseline, which alexnet does not have.")
  splits = list(splits or _default_splits(config.dataset.split))
  (workdir / "rows").mkdir(parents=True, exist_ok=True)
  pairs = inputs.open_pairs(config.dataset, splits)
  pictures = [inputs.fingerprints(*pair) for pair in pairs]
  how = _how(finetune, pairs)
  compute = (
    _ridge(config, pairs, cache)
    if how == "ridge"
    else _trained(splits, workdir / "runs", cache)
  )
  weights = kept.digest(config.backbone.weights)
  done = {}
  for method in rows:
    config = config_of(method)
    if how == "softmax":
      config.train.freeze, config.train.cache_features = "backbone", True
    asked = {
      "how": how,
      "config": (
        frozen_lib.relevant(config)
        if how == "ridge"
        else workdir_lib.relevant(config.to_dict())
      ),
      "splits": splits,
      "pictures": pictures,
      "weights": weights,
    }
    done[method] = kept.answer(
      workdir / "rows", method, asked, functools.partial(compute, config, method, asked)
    )
    print(_line(method, done[method]), flush=True)
  table = _compare(config, splits, done, how)
  if overrides:
    fields = ", ".join(f"{name} = {value}" for name, value in overrides.items())
    table["protocol"].append(f"Set for all rows: {fields}.")
  workdir_lib.write_json(workdir / "table.json", table)
  workdir_lib.write_text(workdir / "table.md", _markdown(table))
  _draw(table, workdir / "table.png")
  print(f"\n{_markdown(table)}\nwritten to {workdir}/table.md, .json and .png")
  return table


def _default_splits(split: str) -> list[str]:
  """Returns all ten of its kind for a split of FMD, else the split alone."""
  kind = split.split("_")[0]
  if kind in ("half", "fold"):
    return [f"{kind}_{i}_train" for i in range(1, 11)]
  return [split]


def _how(finetune: bool, pairs: Sequence[tuple[data.Split, data.Split]]) -> str:
  """Returns what rows are made by."""
  if finetune:
    return "finetuning"
  learned = max(len(train_split) for train_split, _ in pairs)
  return "ridge" if learned <= kernel.MAX_PICTURES else "softmax"


def _ridge(config, pairs, cache):
  """Returns a function that computes rows by ridge regression on cached features."""

  @functools.cache
  def load():
    return frozen_lib.load(config, pairs, cache)

  def compute(config, method, asked):
    del asked
    frozen = load()
    labels = frozen.labels
    suggested = frozen_lib.suggest(config, frozen)
    products = frozen_lib.kernel(config, frozen, suggested, method)
    outcomes = []
    for train_, test in frozen.pairs:
      predictions, regularization = frozen_lib.classify(
        products, labels, frozen.num_classes, train_, test
      )
      outcomes.append(
        {
          **frozen_lib.measures(labels[test], predictions, frozen.num_classes),
          "regularization": regularization,
          "right": (predictions == labels[test]).astype(int).tolist(),
        }
      )
    return {"suggested": suggested, "outcomes": outcomes}

  return compute


def _trained(splits, folder, cache):
  """Returns a function that computes rows by training as their configs say."""

  def compute(config, method, asked):
    outcomes = []
    for split in splits:
      config = config.copy_and_resolve_references()
      config.dataset.split = split
      # A run of another question stays where it is.
      run = folder / f"{method}-{split}-{kept.number(asked)}"
      result = train.train_and_evaluate(config, run, cache=cache)
      if result is None:
        raise KeyboardInterrupt(f"stopped; the same command continues {run}.")
      predictions = np.load(run / "predictions.npz")
      right = predictions["label"] == predictions["prediction"]
      outcomes.append(
        {
          "top1": result["top1"],
          "mean_per_class": result["mean_per_class"],
          "right": right.astype(int).tolist(),
        }
      )
    return {"outcomes": outcomes}

  return compute


def _line(method: str, row: Row) -> str:
  top1 = 100 * np.array([outcome["top1"] for outcome in row["outcomes"]])
  spread = f" ± {top1.std(ddof=1):.2f}" if len(top1) > 1 else ""
  return f"{method:20} top-1 {top1.mean():.2f}{spread}  ({row['seconds']:.0f} s)"


def _compare(
  config: ml_collections.ConfigDict,
  splits: Sequence[str],
  rows: Mapping[str, Row],
  how: str,
) -> dict[str, Any]:
  figures = paper.FIGURES.get((config.dataset.name, config.backbone.name), {})
  reference = next(iter(rows))
  entries = []
  for method, row in rows.items():
    entry = {
      "method": method,
      "name": _NAMES.get(method, method),
      "paper": figures.get(method),
      "suggested": row.get("suggested", {}),
      "seconds": row["seconds"],
    }
    for measure in ("top1", "mean_per_class"):
      values = 100 * np.array([outcome[measure] for outcome in row["outcomes"]])
      entry[measure] = {
        "mean": float(values.mean()),
        "deviation": float(values.std(ddof=1)) if len(values) > 1 else None,
      }
    if method != reference:
      entry["gain"] = _gain(row, rows[reference])
    entries.append(entry)
  return {
    "dataset": config.dataset.name,
    "backbone": config.backbone.name,
    "reference": reference,
    "splits": list(splits),
    "protocol": _protocol(config, splits, how),
    "rows": entries,
    **workdir_lib.environment(),
  }


def _gain(row: Row, reference: Row) -> dict[str, float]:
  """Returns the difference in top-1, paired, and its interval.

  Over several splits the pairs are splits; on a single one they are its pictures.
  """
  ours, theirs = (
    [np.array(outcome["right"]) for outcome in r["outcomes"]] for r in (row, reference)
  )
  if len(ours) > 1:
    pairs = zip(ours, theirs, strict=True)
    differences = np.array([a.mean() - b.mean() for a, b in pairs])
    error = stats.sem(differences)
    half = error * stats.t.ppf((1 + _CONFIDENCE) / 2, len(differences) - 1)
    low, high = differences.mean() - half, differences.mean() + half
  else:
    differences = (ours[0] - theirs[0]).astype(float)
    rng = np.random.default_rng(0)
    # How often each difference (-1, 0, 1) comes up among as many draws.
    shares = [np.mean(differences == value) for value in (-1, 0, 1)]
    counts = rng.multinomial(len(differences), shares, _RESAMPLES)
    means = (counts[:, 2] - counts[:, 0]) / len(differences)
    low, high = np.quantile(means, [(1 - _CONFIDENCE) / 2, (1 + _CONFIDENCE) / 2])
  return {
    "mean": 100 * float(differences.mean()),
    "low": 100 * float(low),
    "high": 100 * float(high),
  }


def _protocol(config, splits, how) -> list[str]:
  """Returns what this table does, and where it differs from the paper."""
  dataset = config.dataset
  pair = data.open_split(dataset.name, splits[0], dataset.data_dir)
  test = dataset.test_split or inputs.counterpart(splits[0])
  evaluated = data.open_split(dataset.name, test, dataset.data_dir)
  crops = f"{dataset.num_crops} crops of " if dataset.num_crops > 1 else ""
  size = f"{dataset.image_size} × {dataset.image_size}"
  others = f", and {len(splits) - 1} other such pairs" if len(splits) > 1 else ""
  lines = [
    f"Learned from {len(pair)} pictures ({splits[0]}), evaluated on {len(evaluated)} "
    f"({test}){others}.",
    f"{crops}{size}, {config.backbone.name}"
    + (
      f" with {pathlib.Path(config.backbone.weights).name}."
      if config.backbone.weights
      else " from random weights."
    ),
  ]
  lines.append(_learning(config.train, how))
  if len(splits) == 1:
    lines.append(
      "Intervals are bootstrapped over the pictures of the one split, pair by pair."
    )
  else:
    lines.append(
      "± is the deviation over splits; intervals are of Student's t over paired "
      "splits, which share pictures, so that they are somewhat too narrow."
    )
    if how == "ridge":
      lines.append(f"Parameters that are suggested are so from {splits[0]}, for all.")
  return lines


def _learning(train_: ml_collections.ConfigDict, how: str) -> str:
  """Returns what learns, and where this differs from the paper."""
  if how == "ridge" or train_.freeze == "backbone":
    classifier = "ridge regression" if how == "ridge" else "a softmax layer"
    return (
      f"The backbone is frozen and the classifier is {classifier}; the paper "
      "fine-tunes with a softmax layer."
    )
  what = {
    "all": "All layers learn",
    "last_stage": "The last stage and the classifier learn; in the paper all layers do",
    "last_two_convs": "The last two convolutions and the classifier learn",
  }[train_.freeze]
  cached = " Maps of what is frozen are cached, without augmentation."
  return f"{what}.{cached if train_.cache_features else ''}"


def _markdown(table: Mapping[str, Any]) -> str:
  rows = table["rows"]
  reference = _NAMES.get(table["reference"], table["reference"])
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
    ours = _figure(row["top1"])
    if row["top1"]["mean"] == best:
      ours = f"**{ours}**"
    cited = "–" if row["paper"] is None else f"{row['paper']:.2f}"
    lines.append(
      f"| {row['name']} | {ours} | {_figure(row['mean_per_class'])} | {difference} "
      f"| {cited} |"
    )
  notes = [*table["protocol"], *_suggested(rows)]
  return "\n".join([*lines, "", *(f"- {note}" for note in notes), ""])


def _suggested(rows: Sequence[Mapping[str, Any]]) -> list[str]:
  """Returns a line about parameters that were suggested from features, if any were."""
  values = [
    f"{row['name']} " + ", ".join(f"{n} = {v:.4g}" for n, v in row["suggested"].items())
    for row in rows
    if row["suggested"]
  ]
  return [f"Suggested parameters: {'; '.join(values)}."] if values else []


def _figure(value: Mapping[str, float | None]) -> str:
  if value["deviation"] is None:
    return f"{value['mean']:.2f}"
  return f"{value['mean']:.2f} ± {value['deviation']:.2f}"


def _draw(table: Mapping[str, Any], path: pathlib.Path) -> None:
  rows = table["rows"]
  figure = Figure(figsize=(8, 0.45 * len(rows) + 1.4), layout="constrained")
  ax = figure.subplots()
  y = np.arange(len(rows))
  means = [row["top1"]["mean"] for row in rows]
  deviations = [row["top1"]["deviation"] or 0 for row in rows]
  ax.barh(y, means, 0.6, xerr=deviations, color="#4878a8", ecolor="0.3", label="ours")
  cited = [(i, row["paper"]) for i, row in enumerate(rows) if row["paper"] is not None]
  if cited:
    ax.plot(
      [value for _, value in cited],
      [i for i, _ in cited],
      "D",
      color="#d1605e",
      label="paper",
    )
  everything = [
    m + s * d for m, d in zip(means, deviations, strict=True) for s in (-1, 1)
  ]
  everything += [value for _, value in cited]
  ax.set_xlim(max(min(everything) - 3, 0), min(max(everything) + 1, 100))
  ax.set_yticks(y, [row["name"] for row in rows])
  ax.invert_yaxis()
  ax.set_xlabel("top-1 accuracy, %")
  ax.set_title(f"{table['dataset']}, {table['backbone']}")
  ax.grid(axis="x", alpha=0.3)
  ax.spines[["top", "right"]].set_visible(False)
  ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
  figure.savefig(path, dpi=120)
