"""Requests to stop, from a job scheduler or from the keyboard."""

import signal
import sys
import threading


class StopRequest:
  """A context manager that is true once SIGTERM or Ctrl-C has arrived.

  A second Ctrl-C does what the first one did before.
  """

  def __init__(self):
    self._requested = False
    self._previous = {}

  def __enter__(self) -> "StopRequest":
    if threading.current_thread() is threading.main_thread():
      for number in (signal.SIGTERM, signal.SIGINT):
        self._previous[number] = signal.signal(number, self._request)
    return self

  def __exit__(self, *_) -> None:
    for number, handler in self._previous.items():
      signal.signal(number, handler)

  def __bool__(self) -> bool:
    return self._requested

  def _request(self, number, frame):
    previous = self._previous[number]
    if self._requested and number == signal.SIGINT and callable(previous):
      previous(number, frame)
      return
    self._requested = True
    again = "; press Ctrl-C again to quit at once" if number == signal.SIGINT else ""
    print(f"\nstopping after this step{again}", file=sys.stderr, flush=True)
