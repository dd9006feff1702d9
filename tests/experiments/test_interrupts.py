import os
import signal
import subprocess
import sys
import threading

import pytest

from experiments import interrupts

# A command in which an exception is lost, as in a callback of JAX.
_LOST = """
import contextlib, os, signal, sys, time
from experiments import interrupts

with interrupts.raise_interrupts(grace_seconds=0.2):
  with contextlib.suppress(KeyboardInterrupt):
    os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    time.sleep(30)
  time.sleep(30)
"""


@pytest.mark.parametrize(
  ("number", "message"),
  [(signal.SIGINT, "interrupted."), (signal.SIGTERM, "terminated.")],
)
def test_a_signal_interrupts(number, message):
  before = signal.getsignal(number)
  with (
    pytest.raises(KeyboardInterrupt, match=message),
    interrupts.raise_interrupts(grace_seconds=0.1),
  ):
    os.kill(os.getpid(), number)
    threading.Event().wait(5)
  assert signal.getsignal(number) is before
  threading.Event().wait(0.2)  # Nothing else happens.


@pytest.mark.parametrize(
  ("name", "message"),
  [("SIGINT", "error: interrupted.\n"), ("SIGTERM", "error: terminated.\n")],
)
def test_a_signal_that_is_lost_ends_the_process(name, message):
  command = [sys.executable, "-c", _LOST, name]
  done = subprocess.run(command, capture_output=True, text=True, timeout=20)
  assert (done.returncode, done.stderr) == (interrupts.INTERRUPTED, message)
