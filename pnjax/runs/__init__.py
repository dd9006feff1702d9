"""The folder of a run: config, checkpoints, records, and the trained model."""

from pnjax.runs._checkpoints import Checkpoints
from pnjax.runs._curves import curves_figure
from pnjax.runs._curves import draw_curves
from pnjax.runs._environment import environment
from pnjax.runs._export import export
from pnjax.runs._export import load_exported
from pnjax.runs._finished import damaged_file
from pnjax.runs._records import Records
from pnjax.runs._records import read_records
from pnjax.runs._refit import CLASSIFIERS
from pnjax.runs._refit import has_refit
from pnjax.runs._refit import read_refit
from pnjax.runs._refit import write_refit
from pnjax.runs._trained import TrainedModel
from pnjax.runs._trained import classifier_to_use
from pnjax.runs._trained import load
from pnjax.runs._workdir import ModelInfo
from pnjax.runs._workdir import create_workdir
from pnjax.runs._workdir import metrics_by_classifier
from pnjax.runs._workdir import prepare_workdir
from pnjax.runs._workdir import read_class_names
from pnjax.runs._workdir import read_config
from pnjax.runs._workdir import read_fingerprints
from pnjax.runs._workdir import read_finished
from pnjax.runs._workdir import read_model_info
from pnjax.runs._workdir import read_predictions
from pnjax.runs._workdir import read_result
from pnjax.runs._workdir import require_model_info
from pnjax.runs._workdir import write_class_names
from pnjax.runs._workdir import write_model_info
from pnjax.runs._workdir import write_result
from pnjax.runs._writing import writing

__all__ = [
  "CLASSIFIERS",
  "Checkpoints",
  "ModelInfo",
  "Records",
  "TrainedModel",
  "classifier_to_use",
  "create_workdir",
  "curves_figure",
  "damaged_file",
  "draw_curves",
  "environment",
  "export",
  "has_refit",
  "load",
  "load_exported",
  "metrics_by_classifier",
  "prepare_workdir",
  "read_class_names",
  "read_config",
  "read_fingerprints",
  "read_finished",
  "read_model_info",
  "read_predictions",
  "read_records",
  "read_refit",
  "read_result",
  "require_model_info",
  "write_class_names",
  "write_model_info",
  "write_refit",
  "write_result",
  "writing",
]
