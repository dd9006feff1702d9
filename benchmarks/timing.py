"""Timing that survives a noisy machine: in turn, several times, the median."""

from collections.abc import Callable
import os
import statistics
import time


def measure(
  cases: dict[str, Callable[[], object]],
  rounds: int,
  warm_up: bool = True,
  rest: float = 0.0,
) -> dict[str, float]:
  """Median seconds of each case.

  All cases take turns in every round, so that a slow moment of the machine meets
  all of them. In its turn a case may run once untimed, which brings its memory back
  after the others.

  Args:
    cases: functions that return when their work is done.
    rounds: how often every case is timed.
    warm_up: whether each timed run follows an untimed one.
    rest: seconds of sleep before each turn, where threads of the case before may
      keep spinning.
  """
  times = {name: [] for name in cases}
  for _ in range(rounds):
    for name, run in cases.items():
      time.sleep(rest)
      if warm_up:
        run()
      start = time.perf_counter()
      run()
      times[name].append(time.perf_counter() - start)
  return {name: statistics.median(values) for name, values in times.items()}


def machine() -> str:
  """The processor, as Linux names it, and the number of cores."""
  model = "unknown processor"
  try:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
      names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    model = names[0]
  except (OSError, IndexError):
    pass
  return f"{model}, {os.cpu_count()} cores"
