"""Records of a run as JSON lines and for TensorBoard."""

from collections.abc import Callable
from collections.abc import Mapping
import contextlib
import json
import os
import pathlib

from pnjax import runtime
from pnjax.runs._board import Board
from pnjax.runs._writing import writing

_METRICS = "metrics.jsonl"
_TIMINGS = "timings.jsonl"
# What every record of a file has.
_FIELDS = {_METRICS: {"step", "split", "loss"}, _TIMINGS: {"step"}}


class Records:
  """A context manager that writes the records of a run.

  `metrics.jsonl` has the numbers that a run repeats to the last bit when it is killed
  and resumed; `timings.jsonl` has those that depend on the machine.
  """

  def __init__(self, folder: str | os.PathLike | None, steps: Mapping[str, int]):
    """Open the records, and drop those after the point where the run resumes.

    Args:
      folder: Folder of the run; None to write nothing.
      steps: Last step to keep for each split.

    Raises:
      OSError: if they cannot be written, here and in the methods.
      ValueError: if a line of an earlier process is no record.
    """
    self._folder = pathlib.Path(os.devnull if folder is None else folder)
    self._board = None
    with writing("records", self._folder), contextlib.ExitStack() as files:
      if folder is not None:
        last = max(steps.values())
        if last and not (self._folder / _METRICS).exists():
          raise ValueError(
            f"{self._folder / _METRICS} is missing, with the records of "
            f"{runtime.counted(last, 'step')}. Put it back, or an empty file to go on "
            "without them."
          )
        _drop_unless(
          self._folder / _METRICS, lambda r: r["step"] <= steps.get(r["split"], 0)
        )
        _drop_unless(self._folder / _TIMINGS, lambda r: r["step"] <= last)
        board = Board(self._folder / "tensorboard", step=last + 1)
        self._board = files.enter_context(board)
      self._metrics, self._timings = (
        files.enter_context(open(self._path(name), "a", buffering=1, encoding="utf-8"))
        for name in (_METRICS, _TIMINGS)
      )
      self._files = files.pop_all()

  def _path(self, name: str) -> pathlib.Path:
    return self._folder / name if self._board is not None else self._folder

  def __enter__(self) -> "Records":
    return self

  def __exit__(self, *_) -> None:
    with writing("records", self._folder):
      self._files.close()

  def write(self, step: int, split: str, values: Mapping[str, float]) -> None:
    """Write the metrics of a split after a step."""
    record = {"step": step, "split": split, **values}
    with writing("records", self._folder):
      self._metrics.write(json.dumps(record) + "\n")
      self._plot(step, split, values)

  def write_timing(self, step: int, values: Mapping[str, float]) -> None:
    """Write the speed up to a step."""
    with writing("records", self._folder):
      self._timings.write(json.dumps({"step": step, **values}) + "\n")
      self._plot(step, "timing", values)

  def _plot(self, step: int, group: str, values: Mapping[str, float]) -> None:
    if self._board is not None:
      for name, value in values.items():
        self._board.add(f"{group}/{name}", value, step)

  def flush(self) -> None:
    """Write the records to disk, which has to happen before a checkpoint."""
    with writing("records", self._folder):
      for file in (self._metrics, self._timings):
        file.flush()
        if self._board is not None:
          os.fsync(file.fileno())


def read_records(folder: str | os.PathLike) -> list[dict]:
  """Return the records in the `metrics.jsonl` of a run."""
  return _read_lines(pathlib.Path(folder) / _METRICS)


def _drop_unless(path: pathlib.Path, keep: Callable[[dict], bool]) -> None:
  records = filter(keep, _read_lines(path))
  runtime.write_text(path, "".join(json.dumps(r) + "\n" for r in records))


def _read_lines(path: pathlib.Path) -> list[dict]:
  if not path.exists():
    return []
  lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
  # The last one is empty, or the run was killed in the middle of it.
  return [_parse(line, i, path) for i, line in enumerate(lines[:-1], start=1)]


def _parse(line: str, number: int, path: pathlib.Path) -> dict:
  try:
    record = json.loads(line)
  except (ValueError, RecursionError):
    record = None
  if not isinstance(record, dict) or not _FIELDS[path.name] <= record.keys():
    raise ValueError(
      f"line {number} of {path} is {line[:60]!r}, expected a record. Correct it, or "
      "remove the line."
    )
  return record
