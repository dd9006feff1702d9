"""Checkpoints of a run, written completely or not at all."""

import os
import pathlib
from typing import Any

from flax import serialization
import jax
import numpy as np
import orbax.checkpoint as ocp

from pnjax import runtime

# The last one counts; the one before it is kept in case the disk fails.
_KEEP = 2


class Checkpoints:
  """A context manager for the checkpoints in one folder, by step."""

  def __init__(self, folder: str | os.PathLike, read_only: bool = False):
    self._manager = ocp.CheckpointManager(
      pathlib.Path(folder).absolute(),
      options=ocp.CheckpointManagerOptions(
        preservation_policy=ocp.checkpoint_managers.LatestN(_KEEP),
        enable_async_checkpointing=True,
        read_only=read_only,
        create=not read_only,
        cleanup_tmp_directories=not read_only,  # Left by a killed run.
      ),
    )

  def __enter__(self) -> "Checkpoints":
    return self

  def __exit__(self, kind: type[BaseException] | None, *_) -> None:
    if kind is None or jax.process_count() == 1:
      self._manager.close()  # Waits for a checkpoint that is being written.
    # Otherwise it would also wait for hosts that may never come.

  @property
  def latest_step(self) -> int | None:
    """Step of the last complete checkpoint, or None."""
    return self._manager.latest_step()

  def save(self, step: int, state: Any, position: dict) -> None:
    """Write a checkpoint in the background.

    Args:
      step: Number of steps taken.
      state: Tree of arrays, replicated over all devices.
      position: Position of the run, such as that of its data, as JSON.
    """
    # Host 0 writes NumPy arrays; Orbax would refuse arrays that only look local.
    arrays = serialization.to_state_dict(runtime.to_host(state))
    self._manager.save(
      step,
      args=ocp.args.Composite(
        state=ocp.args.StandardSave(arrays), position=ocp.args.JsonSave(position)
      ),
      force=True,
    )

  def wait(self) -> None:
    """Wait for the checkpoint that is being written."""
    self._manager.wait_until_finished()

  def restore(self, state: Any) -> tuple[Any, dict]:
    """Read the last checkpoint.

    Args:
      state: Tree of arrays with the structure of the one that was saved.

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
    """Return all arrays of the last checkpoint as nested dictionaries."""
    restored = self._manager.restore(
      self._manager.latest_step(),
      args=ocp.args.Composite(state=ocp.args.StandardRestore()),
    )
    return restored.state
