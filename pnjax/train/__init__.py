"""Training: the task, its state and steps, the optimizer, the loop, the evaluation."""

from pnjax.train._checks import check_config
from pnjax.train._evaluation import Outcome
from pnjax.train._evaluation import confusion_matrix
from pnjax.train._evaluation import evaluate
from pnjax.train._evaluation import summarize
from pnjax.train._experiment import Experiment
from pnjax.train._experiment import open_experiment
from pnjax.train._inputs import Inputs
from pnjax.train._loop import train_and_evaluate
from pnjax.train._optimizer import learning_rate
from pnjax.train._optimizer import make_optimizer
from pnjax.train._refit import refit_classifier
from pnjax.train._refit import refit_run
from pnjax.train._state import NonFiniteLossError
from pnjax.train._state import RunningSums
from pnjax.train._state import TrainState
from pnjax.train._state import create_state
from pnjax.train._state import parameter_paths
from pnjax.train._step import Evaluation
from pnjax.train._step import Task
from pnjax.train._step import eval_step
from pnjax.train._step import train_step

__all__ = [
  "Evaluation",
  "Experiment",
  "Inputs",
  "NonFiniteLossError",
  "Outcome",
  "RunningSums",
  "Task",
  "TrainState",
  "check_config",
  "confusion_matrix",
  "create_state",
  "eval_step",
  "evaluate",
  "learning_rate",
  "make_optimizer",
  "open_experiment",
  "parameter_paths",
  "refit_classifier",
  "refit_run",
  "summarize",
  "train_and_evaluate",
  "train_step",
]
