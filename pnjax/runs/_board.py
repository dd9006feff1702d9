"""Records for TensorBoard."""

import os
import pathlib
import struct
import time
from typing import Any

from tensorboardX import record_writer
from tensorboardX import summary
from tensorboardX.proto import event_pb2


class Board:
  """A context manager that writes an event file.

  Unlike the writer of tensorboardX, it has no thread, whose errors nobody could handle.
  """

  def __init__(self, folder: pathlib.Path, step: int):
    """Begin a file whose records replace those of earlier files.

    Args:
      folder: Folder of the event files.
      step: Step from which on they do.
    """
    folder.mkdir(exist_ok=True)
    name = f"events.out.tfevents.{time.time_ns() // 10**9}.{os.getpid()}"
    self._file = open(folder / name, "ab")
    self._write(file_version="brain.Event:2")
    start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
    self._write(step=step, session_log=start)

  def __enter__(self) -> "Board":
    return self

  def __exit__(self, *_) -> None:
    self._file.close()

  def add(self, name: str, value: float, step: int) -> None:
    """Write a value after a step."""
    self._write(step=step, summary=summary.scalar(name, value))

  def _write(self, **fields: Any) -> None:
    """Write an event in the format of TFRecord."""
    event = event_pb2.Event(wall_time=time.time(), **fields).SerializeToString()
    length = struct.pack("<Q", len(event))
    for part in (length, event):
      self._file.write(part + struct.pack("<I", record_writer.masked_crc32c(part)))
    self._file.flush()
