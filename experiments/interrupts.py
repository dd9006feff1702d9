"""Ctrl-C and SIGTERM that end a command at any moment.

No exception is raised: it would be lost where libraries call Python from C++, and the
threads of XLA crash while the interpreter shuts down. Files are written completely or
not at all, so that the process may end at any moment.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import NoReturn

# Exit status of a command that was interrupted, so that `&&` does not go on.
INTERRUPTED = 130

# How long the main thread may be busy outside of Python, where it handles no signal.
_GRACE_SECONDS = 0.5


class _Interrupts:
  """What ends the process at a signal."""

  def __init__(self):
    self.advice = ""
    self._owner = os.getpid()
    self._lock = threading.Lock()
    self._ending: threading.Thread | None = None
    for number in (signal.SIGINT, signal.SIGTERM):
      signal.signal(number, self._end)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    os.register_at_fork(after_in_child=lambda: signal.set_wakeup_fd(-1))
    threading.Thread(target=self._watch, args=(reader,), daemon=True).start()

  def _end(self, number: int, frame: FrameType | None = None) -> None:
    del frame
    if os.getpid() != self._owner:  # The process that forked this one says it.
      os._exit(INTERRUPTED)
    if self._ending is threading.current_thread():  # A second signal does not wait.
      os._exit(INTERRUPTED)
    with self._lock:  # Another thread does not leave it.
      self._ending = threading.current_thread()
      what = "terminated" if number == signal.SIGTERM else "interrupted"
      # Not by `print`, which the signal may have interrupted.
      with contextlib.suppress(OSError):
        os.write(2, f"error: {what}{self.advice}.\n".encode())
      _remove_temporary_folders()
      end_process(INTERRUPTED)

  def _watch(self, reader: int) -> None:
    """End the process if the main thread does not, as while XLA compiles."""
    graceful = 0
    while True:
      (number,) = os.read(reader, 1)
      if signal.getsignal(number) != self._end:  # A run is asked to stop.
        graceful += number == signal.SIGINT
        if number != signal.SIGINT or graceful == 1:
          continue
      time.sleep(_GRACE_SECONDS)
      self._end(number)


_installed: _Interrupts | None = None


def end_at_interrupts(advice: str = "") -> None:
  """End the process with one line when Ctrl-C or SIGTERM arrives from now on.

  Args:
    advice: What the line says after "interrupted".
  """
  global _installed
  if _installed is None:
    _installed = _Interrupts()
  _installed.advice = advice


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
