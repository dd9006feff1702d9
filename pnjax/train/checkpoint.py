"""Checkpoints of a run, written whole or not at all."""

import os
import pathlib
from typing import Any

from flax import serialization
import jax
import numpy as np
import orbax.checkpoint as ocp

from pnjax.train import devices

# The last is the one that counts; the one before is for a disk that failed.
_KEEP = 2


class Checkpoints:
  """Checkpoints in one folder, by step. To be closed, as a context manager."""

  def __init__(self, folder: str | os.PathLike, read_only: bool = False):
    self._manager = ocp.CheckpointManager(
      pathlib.Path(folder).absolute(),
      options=ocp.CheckpointManagerOptions(
        preservation_policy=ocp.checkpoint_managers.LatestN(_KEEP),
        enable_async_checkpointing=True,
        read_only=read_only,
        create=not read_only,
        cleanup_tmp_directories=not read_only,  # What a killed run was writing.
      ),
    )

  def __enter__(self) -> "Checkpoints":
    return self

  def __exit__(self, *_) -> None:
    self._manager.close()  # Waits for what is being written.

  @property
  def latest_step(self) -> int | None:
    """The step of the last complete checkpoint, or None."""
    return self._manager.latest_step()

  def save(self, step: int, state: Any, position: dict) -> None:
    """Writes a checkpoint in the background.

    Args:
      step: number of steps taken.
      state: tree of arrays, the same on all devices.
      position: what else is to be known, as JSON; where the data stands.
    """
    # Host 0 writes NumPy arrays; Orbax would refuse those that only look local.
    arrays = serialization.to_state_dict(devices.fetch(state))
    self._manager.save(
      step,
      args=ocp.args.Composite(
        state=ocp.args.StandardSave(arrays), position=ocp.args.JsonSave(position)
      ),
      force=True,
    )

  def restore(self, state: Any) -> tuple[Any, dict]:
    """Reads the last checkpoint.

    Args:
      state: a tree of arrays with the structure of the one that was saved.

    Returns:
      The tree with the arrays of the checkpoint, in NumPy, and the position.
    """
    expected = serialization.to_state_dict(jax.tree.map(np.asarray, state))
    restored = self._manager.restore(
      self._manager.latest_step(),
      args=ocp.args.Composite(
        state=ocp.args.StandardRestore(expected), position=ocp.args.JsonRestore()
      ),
    )
    return serialization.from_state_dict(state, restored.state), restored.position

  def read(self) -> dict:
    """Returns all arrays of the last checkpoint, as nested dictionaries."""
    restored = self._manager.restore(
      self._manager.latest_step(),
      args=ocp.args.Composite(state=ocp.args.StandardRestore()),
    )
    return restored.state
