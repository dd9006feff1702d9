"""Checkpoints of a run, written completely or not at all, and verified when read."""

import logging
import os
import pathlib
import shutil
from typing import Any

from absl import logging as absl_logging
from flax import traverse_util
import jax
import numpy as np
import orbax.checkpoint as ocp

from pnjax import runtime
from pnjax.runs import _checkpoint_files
from pnjax.runs._writing import writing

# The last one counts; the one before it is there in case the last one is damaged.
_KEEP = 2


class Checkpoints:
  """A context manager for the checkpoints in one folder, by step."""

  def __init__(self, folder: str | os.PathLike, read_only: bool = False):
    self._folder = pathlib.Path(folder).absolute()
    if not read_only:
      _remove_incomplete(self._folder)
    registry = ocp.handlers.DefaultCheckpointHandlerRegistry()
    registry.add(
      _checkpoint_files.ITEM, _checkpoint_files.Contents, _checkpoint_files.Handler()
    )
    self._manager = ocp.CheckpointManager(
      self._folder,
      options=ocp.CheckpointManagerOptions(
        preservation_policy=ocp.checkpoint_managers.LatestN(_KEEP),
        enable_async_checkpointing=True,
        # Nothing else writes before a checkpoint is saved. Orbax's own `read_only`
        # would warn of itself.
        create=not read_only,
      ),
      handler_registry=registry,
    )

  def __enter__(self) -> "Checkpoints":
    absl_logging.get_absl_logger().addFilter(_is_no_traceback_of_orbax)
    return self

  def __exit__(self, kind: type[BaseException] | None, *_) -> None:
    try:
      if kind is None or jax.process_count() == 1:
        with writing("checkpoints", self._folder):
          self._manager.close()  # Waits for a checkpoint that is being written.
      # Otherwise it would also wait for hosts that may never come.
    finally:
      absl_logging.get_absl_logger().removeFilter(_is_no_traceback_of_orbax)

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

    Raises:
      OSError: if this one, or the one that was being written, cannot be written.
    """
    arrays = dict(_named(runtime.to_host(state)))
    contents = _checkpoint_files.Contents(arrays, position)
    with writing("checkpoints", self._folder):
      self._manager.save(
        step, args=ocp.args.Composite(**{_checkpoint_files.ITEM: contents}), force=True
      )

  def wait(self) -> None:
    """Wait for the checkpoint that is being written; raise OSError if that fails."""
    with writing("checkpoints", self._folder):
      self._manager.wait_until_finished()

  def remove_damaged(self, devices: runtime.Devices) -> list[str]:
    """Remove damaged checkpoints, so that a run goes on from the last whole one.

    Args:
      devices: Devices of the run, whose hosts have to agree.

    Returns:
      What is wrong with each of them.

    Raises:
      ValueError: if all of them are damaged; then none is removed.
    """
    steps = sorted(self._manager.all_steps(), reverse=True)
    reasons: list[str] = []
    for step in steps:
      reason = self._damage(step)
      if not devices.any_host(reason is not None):
        break
      reasons.append(reason or f"another host finds {self._path(step)} damaged")
    if reasons and len(reasons) == len(steps):
      raise ValueError(
        f"all checkpoints in {self._folder} are damaged: {'; '.join(reasons)}. Remove "
        "the folder, and the same command begins the run again."
      )
    for step in steps[: len(reasons)]:
      self._manager.delete(step)
    return reasons

  def check(self) -> int:
    """Return the step of the last checkpoint, which is whole.

    Raises:
      FileNotFoundError: if there is none.
      ValueError: if it is damaged.
    """
    step = self.latest_step
    if step is None:
      raise FileNotFoundError(
        f"{self._folder} has no checkpoint; the command that began the run writes one, "
        "unless result.json says that it is finished: remove that first."
      )
    reason = self._damage(step)
    if reason is not None:
      raise ValueError(
        f"the last checkpoint of the run is damaged: {reason}. Remove "
        f"{self._folder.parent / 'result.json'}, if it is there, and the command that "
        "began the run continues it from the checkpoint before."
      )
    return step

  def restore(self, state: Any) -> tuple[Any, dict]:
    """Read the last checkpoint.

    Args:
      state: Tree of arrays with the structure of the one that was saved.

    Returns:
      The tree with the arrays of the checkpoint, in NumPy, and the position.

    Raises:
      ValueError: if it has other arrays.
    """
    contents = self._read()
    expected, arrays = _named(state), contents.arrays
    wrong = [name for name, x in expected if not _is_alike(arrays.get(name), x)]
    if wrong or len(arrays) > len(expected):
      wrong += arrays.keys() - dict(expected).keys()
      raise ValueError(
        f"{self._path(self.latest_step)} has other arrays than the run: "
        f"{', '.join(wrong[:5])}. It is of another version or of another run; begin "
        "the run in another workdir."
      )
    restored = [np.asarray(arrays[name]) for name, _ in expected]
    return jax.tree.unflatten(jax.tree.structure(state), restored), contents.position

  def read(self) -> dict:
    """Return all arrays of the last checkpoint as nested dictionaries."""
    return traverse_util.unflatten_dict(dict(self._read().arrays), sep="/")

  def _read(self) -> _checkpoint_files.Contents:
    step = self.latest_step
    if not self._is_of_orbax(step):
      return _checkpoint_files.read(self._path(step))
    items = ocp.args.Composite(
      state=ocp.args.StandardRestore(), position=ocp.args.JsonRestore()
    )
    try:
      restored = self._manager.restore(step, args=items)
    # Whatever any library raises about files that nothing is known about.
    except Exception as error:
      raise ValueError(
        f"{self._path(step)} is damaged: {error}. Remove the folder, and the command "
        "that began the run continues it from the checkpoint before."
      ) from error
    arrays = traverse_util.flatten_dict(restored.state, sep="/")
    return _checkpoint_files.Contents(arrays, restored.position)

  def _damage(self, step: int) -> str | None:
    if self._is_of_orbax(step):
      return None  # Unknown, since it has no digests.
    return _checkpoint_files.damage(self._path(step))

  def _is_of_orbax(self, step: int | None) -> bool:
    """Return whether an earlier version wrote a checkpoint, in Orbax's own format."""
    return (self._path(step) / "state").is_dir()

  def _path(self, step: int | None) -> pathlib.Path:
    return self._folder / str(step)


def _remove_incomplete(folder: pathlib.Path) -> None:
  """Remove checkpoints that a killed run left, on the first host.

  Orbax would do it in a thread that no error of the run waits for.
  """
  if ocp.utils.is_primary_host(0):
    for path in folder.glob(f"*{ocp.utils.TMP_DIR_SUFFIX}*"):
      shutil.rmtree(path)


def _named(tree: Any) -> list[tuple[str, Any]]:
  """Return the leaves of a tree with their names."""
  leaves = jax.tree_util.tree_leaves_with_path(tree)
  return [
    (jax.tree_util.keystr(path, simple=True, separator="/"), leaf)
    for path, leaf in leaves
  ]


def _is_alike(array: np.ndarray | None, leaf: Any) -> bool:
  if array is None:
    return False
  return (array.shape, array.dtype) == (leaf.shape, leaf.dtype)


def _is_no_traceback_of_orbax(record: logging.LogRecord) -> bool:
  """Return whether to log a record: what Orbax raises, it logs as well."""
  return (
    "orbax" not in record.pathname
    or record.exc_info is None
    or absl_logging.get_verbosity() >= absl_logging.DEBUG
  )
