import errno
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
  OSError(errno.ENOSPC, "No space left on device", "runs/demo/metrics.jsonl"),
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
  [
    (cli.run_plain, "error: interrupted.\n"),
    (cli.run, "error: interrupted; the same command continues.\n"),
  ],
  ids=["others", "runs-and-tables"],
)
def test_an_interrupted_command_says_what_continues_it(
  run, message, monkeypatch, capsys
):
  def main():
    raise KeyboardInterrupt

  monkeypatch.setattr(cli.app, "run", lambda main, flags_parser: sys.exit(main([])))
  with pytest.raises(SystemExit) as exit_:
    run(main)
  assert exit_.value.code == cli.INTERRUPTED
  assert capsys.readouterr().err == message


@pytest.mark.parametrize("args", [["--workdir=", "a.png"], ["--workdir=runs/a", ""]])
def test_an_empty_path_is_refused(args, capsys):
  with pytest.raises(SystemExit):
    predict._parse(args)
  assert capsys.readouterr().err.endswith("it is empty, expected a path\n")


def test_a_device_that_is_not_there_is_one_line(capsys):
  message = "Unable to initialize backend 'tpu': not found"
  assert failing(RuntimeError(message))() == 1
  assert capsys.readouterr().err == f"error: {message}\n"


def test_ctrl_c_while_flags_are_parsed(monkeypatch, capsys):
  def interrupt(*_):
    raise KeyboardInterrupt

  monkeypatch.setattr(cli, "_parse", interrupt)
  monkeypatch.setattr(cli.app, "run", lambda main, flags_parser: flags_parser([]))
  with pytest.raises(SystemExit) as ended:
    cli.run(lambda: 0)
  assert ended.value.code == 130
  expected = "error: interrupted; the same command continues.\n"
  assert capsys.readouterr().err == expected
