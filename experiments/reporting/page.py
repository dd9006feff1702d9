"""The page about finished runs: one file that needs no other."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import json
import pathlib
from typing import Any

from flax import traverse_util
import jinja2
import ml_collections
import numpy as np

from experiments import cli
from experiments.reporting import figures
from experiments.reporting import side_by_side
from pnjax import data
from pnjax import runs
from pnjax import train

_TEMPLATE = "report.html.jinja"
_MAX_PAIRS = 8
_THUMBNAILS_PER_PAIR = 3
_THUMBNAIL_SIDE = 96
_MAX_SPECTRA = 8


@dataclasses.dataclass(frozen=True, eq=False)
class _Run:
  """A finished run.

  Attributes:
    workdir: Folder of the run.
    name: Name of the run on the page.
    config: Run config.
    classifier: The classifier that the page is about: "refit" or "softmax".
    result: Contents of `result.json`.
    metrics: The part of it that is about the classifier.
    class_names: Classes in the order of the labels.
    labels: Labels of the images evaluated on.
    predictions: Predicted classes of the same images.
  """

  workdir: pathlib.Path
  name: str
  config: ml_collections.ConfigDict
  classifier: str
  result: dict[str, Any]
  metrics: dict[str, Any]
  class_names: list[str]
  labels: np.ndarray
  predictions: np.ndarray


def render(workdirs: Sequence[pathlib.Path], classifier: str | None = None) -> str:
  """Return the page about one or more finished runs, as HTML.

  Args:
    workdirs: Folders of the runs.
    classifier: "refit", "softmax", or None for the default of each run.

  Raises:
    FileNotFoundError: if a folder holds no run, or its run is not finished.
    ValueError: if a run was made by an earlier version.
  """
  named = zip(workdirs, _names(workdirs), strict=True)
  finished = [_read_run(workdir, name, classifier) for workdir, name in named]
  several = len(finished) > 1
  environment = jinja2.Environment(
    loader=jinja2.FileSystemLoader(pathlib.Path(__file__).parent),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
  )
  return environment.get_template(_TEMPLATE).render(
    title=" and ".join(run.name for run in finished),
    results=[_summarize(run) for run in finished],
    curves=_curves(finished),
    differing=_compare(finished) if several else None,
    runs=[_describe(run) for run in finished],
  )


def _curves(finished: Sequence[_Run]) -> figures.InlineFigure | None:
  """Draw the curves of runs; None if no run has trained, as with no epochs."""
  records = [record for run in finished for record in runs.read_records(run.workdir)]
  if all(record["split"] == "test" for record in records):
    return None
  several = len(finished) > 1
  labelled = [(run.name if several else "", run.workdir) for run in finished]
  return figures.inline_figure(figures.curves(labelled))


def _names(workdirs: Sequence[pathlib.Path]) -> list[str]:
  """Return the names of folders, or their paths if two names are the same."""
  names = [workdir.resolve().name for workdir in workdirs]
  if len(set(names)) < len(names):
    names = [str(workdir) for workdir in workdirs]
  return [cli.printable(name) for name in names]


def _read_run(workdir: pathlib.Path, name: str, classifier: str | None) -> _Run:
  config = runs.read_config(workdir)
  result = runs.read_result(workdir)
  if result is None:
    raise FileNotFoundError(
      f"the run in {workdir} is not finished: it has no result.json. The command that "
      "began it continues it."
    )
  classifier = runs.classifier_to_use(workdir, config, classifier)
  if classifier == "refit" and "refit" not in result:
    raise ValueError(
      f"{workdir} has no refit classifier; `python -m experiments.refit "
      f"--workdir={workdir}` makes one."
    )
  labels, predictions = runs.read_predictions(workdir, classifier)
  return _Run(
    workdir=workdir,
    name=name,
    config=config,
    classifier=classifier,
    result=result,
    metrics=runs.metrics_by_classifier(result)[classifier],
    class_names=runs.read_class_names(workdir),
    labels=labels,
    predictions=predictions,
  )


def _summarize(run: _Run) -> dict[str, Any]:
  """Return the row of a run in the table of results."""
  dataset = run.config.dataset
  # Runs of earlier versions did not record it.
  split = run.result.get("evaluated_on", data.evaluation_split(dataset))
  return {
    "name": run.name,
    "dataset": f"{dataset.name}, {split}",
    "method": _method(run.config),
    "time": _duration(run.result["wall_seconds"]),
    "classifiers": runs.metrics_by_classifier(run.result),
  }


def _method(config: ml_collections.ConfigDict) -> str:
  pooling = config.pooling
  parts = ["first-order" if pooling.order == 1 else "second-order"]
  if pooling.num_pivots:
    parts.append("coordinates")
  if pooling.power_norm:
    parts.append(("spectral " if pooling.spectral else "") + pooling.power_norm)
  return f"{config.backbone.name}, {' + '.join(parts)}"


def _duration(seconds: float) -> str:
  if seconds < 120:
    return f"{seconds:.0f} s"
  hours, minutes = divmod(round(seconds / 60), 60)
  return f"{hours} h {minutes} min" if hours else f"{minutes} min"


def _compare(finished: Sequence[_Run]) -> dict[str, Any]:
  """Return what differs between runs: accuracies of classes, and fields."""
  return {
    "names": [run.name for run in finished],
    "classes": side_by_side.differing_classes(
      [run.metrics["per_class"] for run in finished]
    ),
    "fields": side_by_side.differing_fields(
      [_config_fields(run.config) for run in finished]
    ),
  }


def _describe(run: _Run) -> dict[str, Any]:
  """Return the sections about a run."""
  trained = runs.load(run.workdir, run.classifier)
  info = runs.read_model_info(run.workdir)
  assert info is not None  # Or the model would not have loaded.
  images = _open_images(run)
  confusion = train.confusion_matrix(run.labels, run.predictions, len(run.class_names))
  sections = {
    "name": run.name,
    "classifier": run.classifier,
    "accuracies": figures.inline_figure(
      figures.class_accuracies(
        {name: run.metrics["per_class"][name] for name in run.class_names}
      )
    ),
    "per_class": _classes(run, confusion),
    "has_numbers": not all(map(figures.can_draw, map(cli.printable, run.class_names))),
    "confusion": figures.inline_figure(
      figures.confusion_matrix(confusion, run.class_names)
    ),
    "pairs": list(_confused_pairs(run, confusion, images)),
    "has_images": images is not None,
    "learned": list(_learned_parameters(trained)),
    "spectra": _spectra(trained, images),
    "suggested": info.suggested,
    "config": _config_fields(run.config),
    "versions": _versions(run.result),
  }
  return {**sections, "sections": _headings(sections)}


def _headings(sections: Mapping[str, Any]) -> list[str]:
  """Return the headings of the sections about a run."""
  present = {
    "Classes": True,
    "Confusion": True,
    "Most confused classes": bool(sections["pairs"]),
    "Learned parameters": bool(sections["learned"]),
    "Eigenvalues of the pooled matrix": sections["spectra"] is not None,
    "Suggested parameters": bool(sections["suggested"]),
    "Config": True,
    "Versions": True,
  }
  return [heading for heading, is_present in present.items() if is_present]


def _open_images(run: _Run) -> data.Split | None:
  """Return the images evaluated on; None if they are gone or have changed."""
  try:
    _, split = data.open_splits(run.config.dataset)
  except (OSError, ValueError):
    return None
  fingerprint = runs.read_fingerprints(run.workdir)["test"]
  return split if split.fingerprint == fingerprint else None


def _classes(run: _Run, confusion: np.ndarray) -> list[tuple[str, int, float | None]]:
  """Return the name, number of images and accuracy of every class.

  The names that figures cannot draw have the number that stands for them there.
  """
  counts = confusion.sum(axis=1).tolist()
  accuracies = [run.metrics["per_class"][name] for name in run.class_names]
  names = [
    name if figures.can_draw(name) else f"{name} (class {number})"
    for number, name in enumerate(map(cli.printable, run.class_names))
  ]
  return list(zip(names, counts, accuracies, strict=True))


def _confused_pairs(
  run: _Run, confusion: np.ndarray, images: data.Split | None
) -> Iterator[dict[str, Any]]:
  """Yield the pairs of classes that are confused most, with some of their images."""
  errors = confusion * (1 - np.eye(len(confusion), dtype=int))
  most_first = np.argsort(-errors, axis=None, kind="stable")[:_MAX_PAIRS]
  for label, predicted in zip(*np.unravel_index(most_first, errors.shape), strict=True):
    if not errors[label, predicted]:
      return
    members = (run.labels == label) & (run.predictions == predicted)
    shown = np.flatnonzero(members)[:_THUMBNAILS_PER_PAIR]
    yield {
      "label": cli.printable(run.class_names[label]),
      "predicted": cli.printable(run.class_names[predicted]),
      "count": errors[label, predicted],
      "total": confusion[label].sum(),
      "thumbnails": [] if images is None else [_thumbnail(images[i]) for i in shown],
    }


def _thumbnail(example: Mapping[str, Any]) -> dict[str, str]:
  image = data.decode(example["image"])
  source = figures.thumbnail_url(image, _THUMBNAIL_SIDE)
  return {"source": source, "file": cli.printable(example["file"])}


def _learned_parameters(
  trained: runs.TrainedModel,
) -> Iterator[tuple[str, float, float]]:
  """Yield the name, first value and learned value of each pooling parameter."""
  pooling = trained.model.pooling
  for name, value in trained.variables["params"].get("pooling", {}).items():
    if np.ndim(value):  # Weights of a layer.
      continue
    if name.startswith("log_"):
      name, value = name.removeprefix("log_"), np.exp(value)
    if name == "beta":
      value = np.clip(value, 0, 1)  # As it is used.
    start = getattr(pooling, name)
    yield name, pooling.norm.default if start is None else start, float(value)


def _spectra(
  trained: runs.TrainedModel, images: data.Split | None
) -> figures.InlineFigure | None:
  """Draw the eigenvalues of M and Ψ; None if there are no images or no matrices."""
  config = trained.config
  if images is None or config.pooling.order == 1 or config.classifier.rank is not None:
    return None
  count = min(_MAX_SPECTRA, len(images))
  indices = np.linspace(0, len(images) - 1, count, dtype=int)
  decoded = [data.decode(images[i]["image"]) for i in indices]
  m, psi = trained.matrices(trained.features(decoded))
  eigenvalues = {"M, before the Power Normalization": _mean_spectrum(m)}
  if config.pooling.power_norm is not None:
    eigenvalues["Ψ, after the Power Normalization"] = _mean_spectrum(psi)
  return figures.inline_figure(figures.spectra(eigenvalues))


def _mean_spectrum(matrices: np.ndarray) -> np.ndarray:
  """Return the magnitudes of eigenvalues over the largest, averaged over images."""
  values = np.abs(np.linalg.eigvalsh(matrices.astype(np.float64)))
  values = np.sort(values)[:, ::-1]
  return np.mean(values / np.maximum(values[:, :1], 1e-300), axis=0)


def _config_fields(config: ml_collections.ConfigDict) -> dict[str, str]:
  """Return the fields of a config by their paths, as `--config.FIELD` names them."""
  fields = traverse_util.flatten_dict(config.to_dict(), sep=".")
  return {name: json.dumps(fields[name], ensure_ascii=False) for name in sorted(fields)}


def _versions(result: Mapping[str, Any]) -> dict[str, str]:
  revision = result["git_revision"] or "unknown"
  return result["versions"] | {"commit": revision, "devices": result["devices"]}
