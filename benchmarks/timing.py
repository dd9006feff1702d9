"""Median times of functions that take turns, for machines that are not quite idle."""

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
  """Return the median time of each case in seconds.

  All cases take turns in every round, so that a slow moment of the machine affects
  all of them. A case may run once untimed at the beginning of its turn, which brings
  its memory back into the caches.

  Args:
    cases: Functions that return when their work is done.
    rounds: Number of times that each case is timed.
    warm_up: Whether each timed call follows an untimed one.
    rest: Seconds of sleep before each turn, for threads of the previous case that may
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
  """Return the name of the processor, if Linux tells, and the number of cores."""
  model = "unknown processor"
  try:
    with open("/proc/cpuinfo", encoding="utf-8") as lines:
      names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    model = names[0]
  except (OSError, IndexError):
    pass
  return f"{model}, {os.cpu_count()} cores"
