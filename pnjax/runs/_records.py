"""Records of a run as JSON lines and for TensorBoard."""

from collections.abc import Callable
from collections.abc import Mapping
import json
import os
import pathlib

import tensorboardX

from pnjax import runtime

_METRICS = "metrics.jsonl"
_TIMINGS = "timings.jsonl"


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
    """
    if folder is None:
      self._metrics, self._timings = (open(os.devnull, "w") for _ in range(2))
      self._board = None
      return
    folder = pathlib.Path(folder)
    last = max(steps.values())
    _drop_unless(
      folder / _METRICS, lambda record: record["step"] <= steps[record["split"]]
    )
    _drop_unless(folder / _TIMINGS, lambda record: record["step"] <= last)
    self._metrics, self._timings = (
      open(folder / name, "a", buffering=1, encoding="utf-8")
      for name in (_METRICS, _TIMINGS)
    )
    self._board = tensorboardX.SummaryWriter(
      str(folder / "tensorboard"), purge_step=last + 1
    )

  def __enter__(self) -> "Records":
    return self

  def __exit__(self, *_) -> None:
    self._metrics.close()
    self._timings.close()
    if self._board is not None:
      self._board.close()

  def write(self, step: int, split: str, values: Mapping[str, float]) -> None:
    """Write the metrics of a split after a step."""
    record = {"step": step, "split": split, **values}
    self._metrics.write(json.dumps(record) + "\n")
    self._plot(step, split, values)

  def write_timing(self, step: int, values: Mapping[str, float]) -> None:
    """Write the speed up to a step."""
    self._timings.write(json.dumps({"step": step, **values}) + "\n")
    self._plot(step, "timing", values)

  def _plot(self, step: int, group: str, values: Mapping[str, float]) -> None:
    if self._board is not None:
      for name, value in values.items():
        self._board.add_scalar(f"{group}/{name}", value, step)

  def flush(self) -> None:
    """Write the records to disk, which has to happen before a checkpoint."""
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
  records = []
  for line in path.read_text(encoding="utf-8").splitlines():
    try:
      records.append(json.loads(line))
    except json.JSONDecodeError:
      break  # The run was killed in the middle of a line.
  return records
