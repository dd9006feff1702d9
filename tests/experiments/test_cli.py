import errno
import subprocess
import sys

from absl import logging
import jax
import numpy as np
import pytest

from experiments import cli
from experiments import predict
from pnjax import pretrained
from pnjax import train


@pytest.fixture
def verbose():
  before = logging.get_verbosity()
  logging.set_verbosity(logging.DEBUG)
  yield
  logging.set_verbosity(before)


def failing(error):
  @cli.reports_errors()
  def main():
    raise error

  return main


KNOWN = [
  ImportError("no module"),
  OSError("the disk is gone"),
  ValueError("two\nlines"),
  jax.errors.JaxRuntimeError("INTERNAL: the device\n\tis gone"),
  pretrained.UnavailableError("no source"),
  train.NonFiniteLossError("the loss is NaN"),
]


@pytest.mark.parametrize("error", KNOWN, ids=lambda error: type(error).__name__)
def test_known_errors_are_one_line(error, capsys):
  assert failing(error)() == 1
  assert capsys.readouterr() == ("", f"error: {' '.join(str(error).split())}\n")


def test_bugs_keep_their_traceback():
  with pytest.raises(KeyError, match="params"):
    failing(KeyError("params"))()


def test_a_closed_pipe_is_no_error():
  with pytest.raises(BrokenPipeError):  # `cli.run` ends quietly.
    failing(BrokenPipeError())()


def test_verbosity_adds_the_traceback(verbose, capsys):
  assert failing(ValueError("a mistake"))() == 1
  *lines, last = capsys.readouterr().err.splitlines()
  assert lines[0] == "Traceback (most recent call last):"
  assert last == "error: a mistake"


def test_lines_of_a_list_can_be_kept(capsys):
  assert cli.fail(ValueError("broken:\n  a.png"), keep_lines=True) == 1
  assert capsys.readouterr().err == "error: broken:\n  a.png\n"


def test_device_memory_that_ran_out_says_what_to_do(capsys):
  @cli.reports_errors()
  def main():
    jax.numpy.zeros(2**52, np.uint8)
    return 0

  assert main() == 1
  line = capsys.readouterr().err
  assert line.startswith("error: memory ran out when 4.5e+06 GB were asked for. In ")
  assert "smaller train.batch_size" in line


def test_host_memory_that_ran_out_says_what_to_do(capsys):
  @cli.reports_errors()
  def main():
    np.zeros(2**62, np.uint8)
    return 0

  assert main() == 1
  line = capsys.readouterr().err
  assert line.startswith("error: memory ran out when 4.00 EiB were asked for. In ")


def test_control_characters_cannot_command_the_terminal(capsys):
  names = ["red\x1b[31m", "\u202egpj.exe", "two\nlines", "क्‍ष", "猫"]
  predict._print("a.png", np.arange(5)[::-1] / 10, names, 5, False)
  lines = capsys.readouterr().out.splitlines()
  assert [line.split()[-1] for line in lines[1:]] == [
    "red\\x1b[31m",
    "\\u202egpj.exe",
    "two\\nlines",
    *names[3:],  # A joiner of letters is kept.
  ]


@pytest.mark.parametrize(
  ("run", "message"),
  [("run_plain", "interrupted."), ("run", "interrupted; the same command continues.")],
  ids=["others", "runs-and-tables"],
)
@pytest.mark.parametrize(
  "moment",
  ["raise KeyboardInterrupt", "os.kill(os.getpid(), signal.SIGINT)"],
  ids=["exception", "signal"],
)
def test_an_interrupted_command_says_what_continues_it(run, message, moment):
  program = f"""
import os, signal
from experiments import cli

def main():
  {moment}

cli.{run}(main)
"""
  assert _ended(program) == (cli.INTERRUPTED, f"error: {message}\n")


def _ended(program):
  """The exit status of a program, and what it says on stderr."""
  done = subprocess.run(
    [sys.executable, "-c", program], capture_output=True, text=True, timeout=60
  )
  return done.returncode, done.stderr


@pytest.mark.parametrize("args", [["--workdir=", "a.png"], ["--workdir=runs/a", ""]])
def test_an_empty_path_is_refused(args, capsys):
  with pytest.raises(SystemExit):
    predict._parse(args)
  assert capsys.readouterr().err.endswith("it is empty, expected a path\n")


def test_a_device_that_is_not_there_is_one_line(capsys):
  message = "Unable to initialize backend 'tpu': not found"
  assert failing(RuntimeError(message))() == 1
  assert capsys.readouterr().err == f"error: {message}\n"


def test_ctrl_c_while_flags_are_parsed():
  program = """
import os, signal
from experiments import cli

cli._parse = lambda *_: os.kill(os.getpid(), signal.SIGINT)
cli.run(lambda: 0)
"""
  expected = "error: interrupted; the same command continues.\n"
  assert _ended(program) == (cli.INTERRUPTED, expected)


@pytest.mark.parametrize(
  ("error", "line"),
  [
    (
      OSError(errno.ENOSPC, "No space left on device", "runs/a/metrics.jsonl"),
      "runs/a/metrics.jsonl cannot be used: no space left on device; make room.",
    ),
    (
      PermissionError(errno.EACCES, "Permission denied", "a.png"),
      "a.png cannot be used: permission denied; change its permissions, or choose "
      "another path.",
    ),
    (
      OSError(errno.EXDEV, "Invalid cross-device link", "a", None, "b"),
      "a and b cannot be used: invalid cross-device link.",
    ),
    (
      OSError("a.json cannot be read: [Errno 5] Input/output error: 'a.json'"),
      "a.json cannot be read: Input/output error: 'a.json'",
    ),
  ],
  ids=["full", "forbidden", "two-names", "inside"],
)
def test_no_error_is_a_bare_errno(error, line, capsys):
  assert cli.fail(error) == 1
  assert capsys.readouterr().err == f"error: {line}\n"
