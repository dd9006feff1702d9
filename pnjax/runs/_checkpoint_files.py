"""The files of a checkpoint, which its digests verify.

They are plain files instead of Orbax's own: the threads that read and write those print
tracebacks when they fail, and do not notice every changed byte.
"""

from collections.abc import Mapping
import dataclasses
import os
import pathlib
from typing import Any

import numpy as np
import orbax.checkpoint as ocp

from pnjax import runtime

# What Orbax calls them all, and so the name of their folder.
ITEM = "run"
_ARRAYS = "arrays.npz"
_POSITION = "position.json"
_DIGESTS = "sha256.json"


class Handler(ocp.AsyncCheckpointHandler):
  """Lets Orbax write the files in a thread of its own."""

  async def async_save(
    self, directory: Any, args: "Contents"
  ) -> list[ocp.future.Future]:
    """Begin to write the files."""
    # The next step reuses the memory of the arrays.
    copies = {name: np.array(x) for name, x in args.arrays.items()}

    async def write() -> None:
      self.save(directory, Contents(copies, args.position))

    return [ocp.future.CommitFutureAwaitingContractedSignals(write())]

  def save(self, directory: Any, args: "Contents") -> None:
    """Write the files, on the first host."""
    if ocp.utils.is_primary_host(0):
      _write(pathlib.Path(directory), args)

  def restore(self, directory: Any, args: "Contents | None" = None) -> "Contents":
    """Read the files, which `damage` has verified."""
    del args
    return read(pathlib.Path(directory).parent)


@ocp.args.register_with_handler(Handler, for_save=True)
@dataclasses.dataclass
class Contents(ocp.args.CheckpointArgs):
  """What a checkpoint has.

  Attributes:
    arrays: Arrays of the training state by their names.
    position: Position of the run, such as that of its data, as JSON.
  """

  arrays: Mapping[str, np.ndarray]
  position: dict[str, Any]


def _write(folder: pathlib.Path, contents: Contents) -> None:
  with open(folder / _ARRAYS, "wb") as file:
    arrays: dict[str, Any] = dict(contents.arrays)
    np.savez(file, **arrays)
    file.flush()
    os.fsync(file.fileno())
  runtime.write_json(folder / _POSITION, contents.position)
  files = (_ARRAYS, _POSITION)
  digests = {name: runtime.file_digest(folder / name) for name in files}
  runtime.write_json(folder / _DIGESTS, digests)


def read(checkpoint: pathlib.Path) -> Contents:
  """Return what a checkpoint has, whose files `damage` has verified."""
  with np.load(checkpoint / ITEM / _ARRAYS) as arrays:
    position = runtime.read_json(checkpoint / ITEM / _POSITION)
    return Contents(dict(arrays), position)


def damage(checkpoint: pathlib.Path) -> str | None:
  """Return what is wrong with the files of a checkpoint, or None."""
  folder = checkpoint / ITEM
  try:
    digests = runtime.read_json(folder / _DIGESTS)
  except FileNotFoundError:
    return f"{folder / _DIGESTS} is missing"
  except ValueError as error:
    return str(error).removesuffix(".")
  for name in (_ARRAYS, _POSITION):
    if not (folder / name).is_file():
      return f"{folder / name} is missing"
    if runtime.file_digest(folder / name) != digests.get(name):
      return f"{folder / name} has changed since it was written"
  return None
