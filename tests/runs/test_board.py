import struct

import pytest
from tensorboardX import record_writer
from tensorboardX.proto import event_pb2

from pnjax.runs._board import Board


def read_events(path):
  """The events of a file in the format of TFRecord."""
  content, events = path.read_bytes(), []
  while content:
    length, event_bytes = content[:8], content[12:]
    (size,) = struct.unpack("<Q", length)
    for part, crc in (
      (length, content[8:12]),
      (event_bytes[:size], event_bytes[size:]),
    ):
      assert struct.unpack("<I", crc[:4]) == (record_writer.masked_crc32c(part),)
    events.append(event_pb2.Event.FromString(event_bytes[:size]))
    content = event_bytes[size + 4 :]
  return events


def test_values_are_there_at_once(tmp_path):
  with Board(tmp_path / "tensorboard", step=5) as board:
    board.add("train/loss", 0.5, step=7)
    (path,) = (tmp_path / "tensorboard").iterdir()
    version, start, value = read_events(path)
  assert version.file_version == "brain.Event:2"
  assert (start.step, start.session_log.status) == (5, event_pb2.SessionLog.START)
  (scalar,) = value.summary.value
  assert (value.step, scalar.tag, scalar.simple_value) == (7, "train/loss", 0.5)


def test_a_full_disk_is_an_error_of_the_call(tmp_path):
  board = Board(tmp_path, step=0)
  file, board._file = board._file, open("/dev/full", "wb", buffering=0)
  file.close()
  with pytest.raises(OSError, match="No space left on device"), board:
    board.add("train/loss", 0.5, step=1)
