import pathlib
import signal
import subprocess
import sys
import time

import pytest

from experiments import interrupts
from tests import small_runs

_PATIENCE = 60.0  # Seconds, for a busy machine.

# A command whose exceptions are lost, as in a callback of JAX.
_LOST = """
import contextlib, os, signal, sys, time
from experiments import interrupts

interrupts.end_at_interrupts(sys.argv[2])
print("so far")
with contextlib.suppress(BaseException):
  os.kill(os.getpid(), getattr(signal, sys.argv[1]))
  time.sleep(30)
time.sleep(30)
"""

# One that is busy outside of Python, where no signal is handled.
_BUSY = """
import contextlib, ctypes, os, signal, sys, threading, time
from experiments import interrupts
from pnjax import runtime

count = int(sys.argv[1])

def interrupt():
  for _ in range(count):
    time.sleep(0.2)
    os.kill(os.getpid(), signal.SIGINT)

interrupts.end_at_interrupts()
threading.Thread(target=interrupt, daemon=True).start()
with runtime.StopRequest() if count == 2 else contextlib.nullcontext():
  signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # It would end the sleep.
  ctypes.CDLL(None).sleep(30)
"""

# One that is asked to stop twice, of which the first request is graceful.
_STOPPING = """
import os, signal, time
from experiments import interrupts
from pnjax import runtime

interrupts.end_at_interrupts("; the same command continues")
with runtime.StopRequest() as stop:
  os.kill(os.getpid(), signal.SIGINT)
  assert stop
  print("still here", flush=True)
  os.kill(os.getpid(), signal.SIGINT)
  time.sleep(30)
"""

_WRITING = """
import os, signal, sys
from experiments import interrupts
from pnjax import runtime

interrupts.end_at_interrupts()
with runtime.temporary_folder(sys.argv[1]) as folder:
  (folder / "half").write_text("half")
  os.kill(os.getpid(), signal.SIGTERM)
"""

_FORKED = """
import os, signal
from experiments import interrupts

interrupts.end_at_interrupts()
if os.fork() == 0:
  os.kill(os.getpid(), signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.wait()[1]))
"""

# It has returned, and the interpreter shuts down.
_DONE = """
import atexit, os, signal
from experiments import cli

atexit.register(lambda: os.kill(os.getpid(), signal.SIGINT))
cli.run_plain(lambda: 0)
"""


def run(program, *args):
  command = [sys.executable, "-c", program, *map(str, args)]
  done = subprocess.run(
    command, capture_output=True, text=True, timeout=_PATIENCE, cwd=small_runs.ROOT
  )
  return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
  ("name", "message"),
  [("SIGINT", "interrupted; do x"), ("SIGTERM", "terminated; do x")],
)
def test_a_signal_ends_the_process_where_exceptions_are_lost(name, message):
  expected = interrupts.INTERRUPTED, "so far\n", f"error: {message}.\n"
  assert run(_LOST, name, "; do x") == expected


def test_a_second_ctrl_c_ends_a_run_that_is_stopping():
  status, output, errors = run(_STOPPING)
  assert (status, output) == (interrupts.INTERRUPTED, "still here\n")
  assert errors == (
    "\nstopping after this step; press Ctrl-C again to quit at once\n"
    "error: interrupted; the same command continues.\n"
  )


@pytest.mark.parametrize("count", [1, 2], ids=["outside of a run", "again in a run"])
def test_ctrl_c_while_the_main_thread_is_outside_of_python(count):
  start = time.monotonic()
  expected = interrupts.INTERRUPTED, "", "error: interrupted.\n"
  assert run(_BUSY, count) == expected
  assert time.monotonic() - start < 25


def test_what_is_not_complete_is_removed(tmp_path):
  expected = interrupts.INTERRUPTED, "", "error: terminated.\n"
  assert run(_WRITING, tmp_path) == expected
  assert list(tmp_path.iterdir()) == []


def test_a_forked_process_ends_silently():
  assert run(_FORKED) == (0, f"{interrupts.INTERRUPTED}\n", "")


def test_ctrl_c_does_not_change_the_status_of_a_command_that_is_done():
  assert run(_DONE) == (0, "", "")


@pytest.fixture(scope="module")
def commands(data_dir, compilation_cache, tmp_path_factory):
  """Commands of a few seconds, and the folder that they write to."""
  folder = tmp_path_factory.mktemp("interrupts")
  config = small_runs.make_config(data_dir)
  config.train.num_epochs = 1
  small_runs.run(config, folder / "run")
  config_file = small_runs.write_config(config, folder / "config.py")
  image = next(data_dir.parent.glob("images/test/*/*.png"))
  output = folder / "written"
  output.mkdir()
  return output, [
    ["predict", f"--workdir={folder / 'run'}", image],
    ["export", f"--workdir={folder / 'run'}", f"--output={output / 'model'}"],
    ["prepare", "textures", f"--data_dir={output}"],
    ["main", f"--config={config_file}", f"--workdir={output / 'run'}"],
  ]


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.3 * k for k in range(14)])
def test_ctrl_c_at_any_moment_of_a_command(commands, seconds):
  folder, lines = commands
  processes = [_start(*line) for line in lines]
  for process in processes:
    _wait_until_caught(process)
  time.sleep(seconds)
  for process in processes:
    process.send_signal(signal.SIGINT)
  for process, line in zip(processes, lines, strict=True):
    _, errors = process.communicate(timeout=_PATIENCE)
    assert process.returncode in (0, interrupts.INTERRUPTED), (line, errors)
    assert process.returncode == 0 or errors.count("\n") <= 2, (line, errors)
    for word in ("Traceback", "Exception ignored", "Fatal"):
      assert word not in errors, line
  assert list(folder.rglob(".*")) == []  # No folder of what is not complete.


def _start(name, *args):
  return subprocess.Popen(
    [sys.executable, "-m", f"experiments.{name}", *args],
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
    cwd=small_runs.ROOT,
  )


def _wait_until_caught(process):
  """Wait until the process catches signals, which takes Python a moment."""
  status = pathlib.Path(f"/proc/{process.pid}/status")
  deadline = time.monotonic() + _PATIENCE
  bit = 1 << (signal.SIGTERM - 1)
  while True:
    fields = dict(line.split(":\t") for line in status.read_text().splitlines())
    if int(fields["SigCgt"], 16) & bit:
      return
    assert time.monotonic() < deadline
    time.sleep(0.005)
