"""Whether the files of a finished run are complete."""

from collections.abc import Mapping
import pathlib
from typing import Any

import safetensors

from pnjax import pretrained
from pnjax.runs import _refit
from pnjax.runs import _workdir

_WEIGHTS = {"softmax": pretrained.NETWORK_FILE, "refit": _refit.FILE}


def damaged_file(workdir: pathlib.Path, result: Mapping[str, Any]) -> str | None:
  """Return the name of a file of a finished run that is missing or damaged, or None.

  Files of weights are only opened; their digests are verified when they are read.

  Args:
    workdir: Folder of the run.
    result: Its result.
  """
  name = _workdir.CLASSES
  try:
    _workdir.read_class_names(workdir)
    for classifier in _workdir.metrics_by_classifier(result):
      name = _workdir.PREDICTIONS
      _workdir.read_predictions(workdir, classifier)
      name = _WEIGHTS[classifier]
      with safetensors.safe_open(workdir / name, "np"):
        pass
  except (OSError, ValueError, safetensors.SafetensorError):
    return name
  return None
