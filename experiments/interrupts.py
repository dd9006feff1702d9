"""Ctrl-C and SIGTERM that end a command at any moment."""

import contextlib
import os
import signal
import sys
from types import FrameType
from typing import NoReturn

# Exit status of a command that was interrupted, so that `&&` does not go on.
INTERRUPTED = 130


def end_at_interrupts(advice: str = "") -> None:
  """End the process with one line when Ctrl-C or SIGTERM arrives from now on.

  No exception is raised: it would be lost where libraries call Python from C++, and the
  threads of XLA crash while the interpreter shuts down. Files are written completely or
  not at all, so that any moment will do.

  Args:
    advice: What the line says after "interrupted".
  """
  owner = os.getpid()

  def end(number: int, frame: FrameType | None) -> None:
    del frame
    if os.getpid() != owner:  # The process that forked this one says it.
      os._exit(INTERRUPTED)
    # A second signal does not wait for what follows.
    for again in (signal.SIGINT, signal.SIGTERM):
      signal.signal(again, lambda *_: os._exit(INTERRUPTED))
    what = "terminated" if number == signal.SIGTERM else "interrupted"
    # Not by `print`, which the signal may have interrupted.
    with contextlib.suppress(OSError):
      os.write(2, f"error: {what}{advice}.\n".encode())
    _remove_temporary_folders()
    end_process(INTERRUPTED)

  for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, end)


def ignore_ctrl_c() -> None:
  """Let a command that is done end with its status."""
  signal.signal(signal.SIGINT, signal.SIG_IGN)


def end_process(status: int) -> NoReturn:
  """End the process without shutting down the interpreter, after flushing."""
  for stream in (sys.stdout, sys.stderr):
    # It may be closed, or the signal may have interrupted a write to it.
    with contextlib.suppress(OSError, RuntimeError, ValueError):
      stream.flush()
  os._exit(status)


def _remove_temporary_folders() -> None:
  # If it is still being imported, there are none.
  runtime = sys.modules.get("pnjax.runtime")
  if remove := getattr(runtime, "remove_temporary_folders", None):
    remove()
