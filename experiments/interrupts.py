"""Ctrl-C and SIGTERM that end a command at any moment."""

from collections.abc import Iterator
import contextlib
import os
import signal
import sys
import threading
from types import FrameType

# Exit status of a command that was interrupted, so that `&&` does not go on.
INTERRUPTED = 130


@contextlib.contextmanager
def raise_interrupts(grace_seconds: float = 5.0) -> Iterator[None]:
  """Raise KeyboardInterrupt for both signals.

  An exception is lost where Python is called from C++, as JAX does while it compiles.
  If it has not arrived after some seconds, the process ends without it: whatever is
  written is written completely or not at all.

  Args:
    grace_seconds: How long the exception may take.
  """
  timers: list[threading.Timer] = []

  def interrupt(number: int, frame: FrameType | None) -> None:
    del frame
    message = "terminated." if number == signal.SIGTERM else "interrupted."
    timer = threading.Timer(grace_seconds, _end, [message])
    timer.daemon = True
    timers.append(timer)
    timer.start()
    raise KeyboardInterrupt(message)

  numbers = signal.SIGINT, signal.SIGTERM
  previous = {number: signal.signal(number, interrupt) for number in numbers}
  try:
    yield
  except KeyboardInterrupt:
    for timer in timers:
      timer.cancel()
    raise
  finally:
    for number, handler in previous.items():
      signal.signal(number, handler)


def _end(message: str) -> None:
  print(f"error: {message}", file=sys.stderr, flush=True)
  os._exit(INTERRUPTED)
