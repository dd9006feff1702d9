"""Connections to other hosts that end the process when they break."""

from __future__ import annotations

from collections.abc import Callable
import contextlib
import os
import socket
import sys
import threading
from types import TracebackType
from typing import Any

_BEAT_SECONDS = 5.0
_DONE_SECONDS = 10.0
_LOSS_SECONDS = 2.0  # Until a lost host is noticed.


class Line:
  """A connection on which lines of text are sent."""

  def __init__(self, connection: socket.socket):
    self.socket = connection
    self._received = b""
    self._sending = threading.Lock()

  def send(self, text: str) -> None:
    """Send a line; a broken connection is noticed where lines are received."""
    with contextlib.suppress(OSError), self._sending:
      self.socket.sendall(text.encode() + b"\n")

  def receive(self) -> str:
    """Return the next line; raise OSError if the connection breaks."""
    while b"\n" not in self._received:
      self._received += self._chunk()
    line, self._received = self._received.split(b"\n", 1)
    return line.decode(errors="replace")

  def _chunk(self) -> bytes:
    chunk = self.socket.recv(4096)
    if not chunk:
      raise ConnectionResetError("the connection was closed")
    return chunk

  def close(self) -> None:
    """Close the connection, also for a thread that waits for a line."""
    with contextlib.suppress(OSError):
      self.socket.shutdown(socket.SHUT_RDWR)
    self.socket.close()

  def rest(self) -> bytes:
    """Return what was received after the last line."""
    rest, self._received = self._received, b""
    return rest


class Watch:
  """A context manager of lines to other hosts, which are listened to all the time.

  A host is heard from every few seconds. If it is not, or if it says that it failed,
  this process tells the others why, and ends. If this host fails, it tells the others.

  Attributes:
    lines: The line to each host, by its index.
  """

  def __init__(self, silence_seconds: float):
    """Start without any line.

    Args:
      silence_seconds: How long nothing may be heard from a host.
    """
    self.lines: dict[int, Line] = {}
    self._silence_seconds = silence_seconds
    self._threads: list[threading.Thread] = []
    self._ending = threading.Lock()
    self._closed = threading.Event()

  def __enter__(self) -> Watch:
    return self

  def start(self) -> None:
    """Listen to all lines."""
    for host, line in self.lines.items():
      line.socket.settimeout(self._silence_seconds)
      for function, args in ((self._listen, (host, line)), (self._beat, (line,))):
        self._threads.append(start_thread(function, *args))

  def __exit__(
    self,
    kind: type[BaseException] | None,
    error: BaseException | None,
    traceback: TracebackType | None,
  ) -> None:
    if error is not None and self._threads:
      # A host that was lost also breaks the collectives of JAX, and is the cause.
      self._closed.wait(_LOSS_SECONDS)
    self._closed.set()
    for line in self.lines.values():
      line.send("done" if error is None else f"failed {_in_one_line(error)}")
    if error is None:  # The others may still need this host to be done.
      self._join()
    for line in self.lines.values():
      line.close()
    self._join()

  def _join(self) -> None:
    for thread in self._threads:
      thread.join(_DONE_SECONDS)

  def _beat(self, line: Line) -> None:
    while not self._closed.wait(min(_BEAT_SECONDS, self._silence_seconds / 4)):
      line.send("")

  def _listen(self, host: int, line: Line) -> None:
    try:
      while (text := line.receive()) != "done":
        kind, _, what = text.partition(" ")
        if kind == "failed":
          self._end(host, f"host {host} failed: {what}")
        if kind == "lost":
          self._end(host, what)
    except OSError:
      if not self._closed.is_set():
        self._end(
          host,
          f"host {host} was killed or cannot be reached any more; start all hosts "
          "again to continue.",
        )

  def _end(self, host: int, reason: str) -> None:
    with self._ending:  # Only the first reason counts.
      for other, line in self.lines.items():
        if other != host:
          line.send(f"lost {reason}")
      print(f"error: {reason}", file=sys.stderr, flush=True)
      os._exit(1)


def start_thread(function: Callable[..., Any], *args: Any) -> threading.Thread:
  """Call a function in a thread that does not keep the process alive."""
  thread = threading.Thread(target=function, args=args, daemon=True)
  thread.start()
  return thread


def _in_one_line(error: BaseException) -> str:
  """Return the message of an error, or its name if it has none."""
  return " ".join(str(error).split()) or type(error).__name__
