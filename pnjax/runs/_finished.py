"""Whether the files of a finished run are complete."""

from collections.abc import Mapping
import functools
import pathlib
from typing import Any

import safetensors

from pnjax import pretrained
from pnjax.runs import _refit
from pnjax.runs import _workdir


def damaged_file(workdir: pathlib.Path, result: Mapping[str, Any]) -> str | None:
  """Return the name of a file of a finished run that is missing or damaged, or None.

  Files of weights are only opened; their digests are verified when they are read.

  Args:
    workdir: Folder of the run.
    result: Its result.
  """
  classifiers = _workdir.metrics_by_classifier(result)
  checks = {
    _workdir.CLASSES: functools.partial(_workdir.read_class_names, workdir),
    _workdir.PREDICTIONS: lambda: [
      _workdir.read_predictions(workdir, classifier) for classifier in classifiers
    ],
  }
  weights = [
    pretrained.NETWORK_FILE,
    *([_refit.FILE] if "refit" in classifiers else ()),
  ]
  checks |= {name: functools.partial(_open_weights, workdir / name) for name in weights}
  for name, check in checks.items():
    try:
      check()
    except (OSError, ValueError, safetensors.SafetensorError):
      return name
  return None


def _open_weights(path: pathlib.Path) -> None:
  with safetensors.safe_open(path, "np"):
    pass
