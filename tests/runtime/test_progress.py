import io
import sys

import pytest

from pnjax.runtime import _progress as progress


class Terminal(io.StringIO):
  def isatty(self):
    return True


def test_a_log_file_gets_lines_and_no_bar(capsys, monkeypatch):
  monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
  with progress.Progress(done=10, total=30) as shown:
    shown.print("begins")
    shown.advance(5)  # Includes compilation, so that the time left is not known.
    shown.advance(5)
  output, errors = capsys.readouterr()
  begins, line = output.splitlines()
  assert begins == "begins"
  assert line.startswith("20 of 30 images, ")
  assert errors == ""


def test_lines_name_the_part_of_the_work(capsys, monkeypatch):
  monkeypatch.setattr(progress, "_SECONDS_BETWEEN_LINES", 0.0)
  with progress.Progress(done=0, total=30, label="features") as shown:
    shown.advance(5)
    shown.advance(5)
  assert capsys.readouterr().out.startswith("features: 10 of 30 images, ")


def test_a_terminal_gets_a_bar_without_colours(capsys, monkeypatch):
  terminal = Terminal()
  monkeypatch.setattr(sys, "stderr", terminal)
  with progress.Progress(done=10, total=30) as shown:
    shown.print("begins")
    shown.advance(20)
  assert capsys.readouterr().out.endswith("begins\n")
  assert "30.0/30.0" in terminal.getvalue()
  assert "\x1b[" not in terminal.getvalue()


def test_a_bar_ends_with_the_last_note(capsys, monkeypatch):
  terminal = Terminal()
  monkeypatch.setattr(sys, "stderr", terminal)
  with progress.Progress(done=0, total=30) as shown:
    for top1 in ("31.25%", "64.65%"):
      shown.note(f"top-1 {top1}")
      shown.advance(15)
  last = terminal.getvalue().split("\r")[-1]
  assert "30.0/30.0" in last
  assert "top-1 64.65%" in last


def test_other_hosts_print_nothing(capsys, monkeypatch):
  monkeypatch.setattr(sys, "stderr", Terminal())
  with progress.Progress(done=0, total=30, quiet=True) as shown:
    shown.print("begins")
    shown.advance(30)
  assert capsys.readouterr().out == ""
  assert sys.stderr.getvalue() == ""


@pytest.mark.parametrize(
  ("seconds", "words"),
  [(0, "0 s"), (59.4, "59 s"), (60, "1 min"), (125, "2 min 5 s"), (7260, "2 h 1 min")],
)
def test_durations_in_words(seconds, words):
  assert progress.format_duration(seconds) == words
