"""Training: state, step, loop, checkpoints and records."""

from pnjax.train.loop import NonFiniteLossError
from pnjax.train.loop import train_and_evaluate
from pnjax.train.state import TrainState

__all__ = ["NonFiniteLossError", "TrainState", "train_and_evaluate"]
