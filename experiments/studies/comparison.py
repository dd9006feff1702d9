"""A table of methods, ours and the paper's."""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import os
import pathlib
from typing import Any

import ml_collections

from experiments.configs import methods
from experiments.studies import method_configs
from experiments.studies import paper
from experiments.studies import rows as rows_lib
from experiments.studies import stored
from experiments.studies import table_contents
from experiments.studies import table_files
from pnjax import config as config_lib
from pnjax import models
from pnjax import pretrained
from pnjax import runs
from pnjax import runtime
from pnjax import train

CommandOf = Callable[[Sequence[str]], str]


def make_table(
  config_of: method_configs.ConfigOf,
  workdir: str | os.PathLike,
  *,
  rows: Sequence[str],
  splits: Sequence[str] | None = None,
  finetune: bool = False,
  classifier: str = "refit",
  cache: str | os.PathLike | None = None,
  overrides: Mapping[str, Any] | None = None,
  command_of: CommandOf | None = None,
) -> dict[str, Any]:
  """Compute the rows that are not stored, and write the table of all stored rows.

  Args:
    config_of: Function from a method to its config.
    workdir: Folder for rows and tables.
    rows: Methods whose rows have to be there. Others are shown if they are stored, in
      the order of the paper.
    splits: Names of the splits to train on.
    finetune: Whether to train as the configs say, in addition to frozen features.
    classifier: Classifier of a trained network whose gains are shown: "refit" or
      "softmax".
    cache: Folder of cached features.
    overrides: Fields that were set for all methods, which a note below the table names.
    command_of: Function from the methods shown to the command that makes their table,
      which is written below it.

  Returns:
    The contents of `table.json`.
  """
  workdir = pathlib.Path(workdir)
  stored.check_folders(workdir=workdir, cache=cache)
  _check_methods(rows)
  _check_splits(splits or ())
  config = config_of(rows[0])
  config_lib.check_fields(config)
  name = config.backbone.name
  if name in ("alexnet", "vgg16"):
    # Their own classifiers are fully connected layers, which are not part of the
    # weights.
    rows = [method for method in rows if method != "baseline"]
    if not rows:
      raise ValueError(f"--rows is baseline, which {name} does not have.")
  configs = {method: config_of(method) for method in rows}
  for config in configs.values():
    _check_config(config, finetune)
  splits = list(splits or _default_splits(config.dataset.split))
  pairs = rows_lib.open_pairs(config, splits)
  dependencies_of = rows_lib.dependencies_of_rows(config, pairs, finetune)
  _restore_rows(workdir)
  rows_lib.compute_rows(configs, dependencies_of, workdir, pairs, finetune, cache)
  notes = _notes(configs[rows[0]], pairs, finetune)
  if overrides:
    fields = ", ".join(f"{name} = {value}" for name, value in overrides.items())
    notes.append(f"Set for all rows: {fields}.")
  shown = classifier if finetune else "frozen"
  finished = _stored_rows(workdir / "rows", lambda m: dependencies_of(config_of(m)))
  table = {
    **table_contents.compare(finished, notes, shown),
    **runs.environment(),
    "command": command_of and command_of(list(finished)),
  }
  _keep_other_table(workdir, finished)
  table_files.write(table, workdir)
  return table


def _restore_rows(workdir: pathlib.Path) -> None:
  """Store the rows of a table that was copied from elsewhere, such as a published one.

  Args:
    workdir: Folder of the table.
  """
  for method, row in _rows_of_file(workdir / "table.json").items():
    dependencies = rows_lib.dependencies(row)
    if stored.load(workdir / "rows", method, dependencies) is None:
      stored.store(workdir / "rows", method, dependencies, row)


def _rows_of_file(path: pathlib.Path) -> dict[str, rows_lib.Row]:
  """Return the rows of a table; none of one that is missing, damaged or outdated."""
  try:
    return table_contents.rows_of(runtime.read_json(path))
  except (FileNotFoundError, KeyError, TypeError, ValueError):
    return {}


def _keep_other_table(workdir: pathlib.Path, rows: Mapping[str, rows_lib.Row]) -> None:
  """Rename the files of a table whose rows are not all among those to be written.

  Args:
    workdir: Folder of the tables.
    rows: Rows of the table to be written.
  """
  path = workdir / "table.json"
  if not path.exists():
    return
  before = _rows_of_file(path)
  dependencies = {method: rows_lib.dependencies(row) for method, row in before.items()}
  kept = f"table-{stored.dependency_digest(dependencies) if before else 'before'}"
  if before and all(
    method in rows and rows_lib.dependencies(rows[method]) == own
    for method, own in dependencies.items()
  ):
    return
  for file in workdir.glob("table.*"):
    file.rename(file.with_stem(kept))
  print(f"the table of other settings that was in {workdir} is {kept}.md now")


def _check_methods(rows: Sequence[str]) -> None:
  if not any(rows):
    raise ValueError("--rows is empty, expected methods.")
  unknown = [method for method in rows if method not in methods.METHODS]
  if unknown:
    known = ", ".join(methods.METHODS)
    raise ValueError(f"--rows has {', '.join(unknown)}, expected some of {known}.")


def _check_splits(splits: Sequence[str]) -> None:
  for split in splits:
    if not split or splits.count(split) > 1:
      raise ValueError(
        f"--splits is {','.join(splits)}, expected names of different splits."
      )


def _check_config(config: ml_collections.ConfigDict, finetune: bool) -> None:
  """Raise ValueError for a mistake that would be found after hours otherwise."""
  if finetune:
    train.check_config(config, num_hosts=1)
  else:
    config_lib.check_values(config)
    models.check_pooling(config)


def _default_splits(split: str) -> list[str]:
  """Return all ten halves or folds for one of FMD's, and else the split itself."""
  kind = split.split("_")[0]
  if kind in ("half", "fold"):
    return [f"{kind}_{i}_train" for i in range(1, 11)]
  return [split]


def _stored_rows(
  folder: pathlib.Path, dependencies_of: Callable[[str], Mapping[str, Any]]
) -> dict[str, rows_lib.Row]:
  """Return the rows of a table that are stored, in the order of the paper.

  Args:
    folder: Folder of rows, also of other tables.
    dependencies_of: Function from a method to what its row depends on.
  """
  names = stored.names(folder)
  ordered = dict.fromkeys([*paper.ROWS, *paper.OTHERS, *methods.METHODS])
  rows = {
    method: stored.load(folder, method, dependencies_of(method))
    for method in ordered
    if method in names
  }
  return {method: row for method, row in rows.items() if row is not None}


def _notes(
  config: ml_collections.ConfigDict, pairs: Sequence[rows_lib.Pair], finetune: bool
) -> list[str]:
  """Return the protocol of the table, and where it departs from the paper."""
  dataset, (train_split, test_split) = config.dataset, pairs[0]
  crops = f"{dataset.num_crops} crops of " if dataset.num_crops > 1 else ""
  size = f"{dataset.image_size} × {dataset.image_size}"
  others = (
    f", and {runtime.counted(len(pairs) - 1, 'more such pair')}"
    if len(pairs) > 1
    else ""
  )
  weights = config.backbone.weights
  origin = f"with {_origin(weights)}" if weights else "from random weights"
  notes = [
    f"Trained on {runtime.counted(len(train_split), 'image')} ({train_split.split}), "
    f"evaluated on {len(test_split)} ({test_split.split}){others}.",
    f"{crops}{size}, {config.backbone.name} {origin}.",
    "frozen: ridge regression on pooled vectors of the pretrained network.",
    *(_training_notes(config) if finetune else ()),
  ]
  if len(pairs) == 1:
    notes.append("Intervals are bootstrapped over the images of the split, in pairs.")
    return notes
  notes.append(
    "± is the deviation over splits. Intervals are Student's t over paired splits, "
    "which share images, so the intervals are somewhat too narrow."
  )
  if not finetune:
    notes.append(f"Suggested parameters come from {train_split.split}, for all splits.")
  return notes


def _origin(weights: str) -> str:
  """Return what readers of a table call the weights: a run, or the name of a file."""
  return weights if os.path.isdir(weights) else pretrained.weights_path(weights).name


def _training_notes(config: ml_collections.ConfigDict) -> list[str]:
  """Return which layers were trained, and how."""
  training, optim = config.train, config.optim
  layers = {
    "all": "all layers",
    "none": "the classifier alone",
    "last_stage": "the last stage and the classifier (the paper: all layers)",
    "last_two_convs": "the last two convolutions and the classifier",
  }.get(training.trainable, f"{training.trainable} and the classifier")
  views = ""
  if training.cache_features:
    count = training.cached_views
    views = f", from {count} cached views" if count > 1 else ", from cached features"
  return [
    f"softmax: {layers} trained by {optim.name} at {optim.learning_rate:g} to "
    f"{optim.final_learning_rate:g}, {runtime.counted(training.num_epochs, 'epoch')}, "
    f"batch size {training.batch_size}{views}.",
    "refit: ridge regression on the pooled vectors of the same trained network.",
  ]
