"""The training loop."""

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import functools
import os
import pathlib
import sys
import time
from typing import Any

import jax
import ml_collections
import numpy as np

from pnjax import runs
from pnjax import runtime
from pnjax.train import _checks
from pnjax.train import _evaluation
from pnjax.train import _memory
from pnjax.train import _step
from pnjax.train._experiment import Experiment
from pnjax.train._experiment import open_experiment
from pnjax.train._refit import refit_classifier
from pnjax.train._result import make_evaluate
from pnjax.train._result import write_result
from pnjax.train._state import RunningSums
from pnjax.train._state import TrainState
from pnjax.train._state import check_finite


@dataclasses.dataclass
class _Position:
  """The position of a run, which a checkpoint has in addition to the state.

  Attributes:
    step: Number of steps taken.
    evaluated: Step of the last evaluation.
    elapsed: Seconds that earlier processes spent on the run.
    data: State of the iterator over batches.
  """

  step: int = 0
  evaluated: int = 0
  elapsed: float = 0.0
  data: Any = None


def train_and_evaluate(
  config: ml_collections.ConfigDict,
  workdir: str | os.PathLike,
  devices: Sequence[jax.Device] | None = None,
  cache: str | os.PathLike | None = None,
) -> dict[str, Any] | None:
  """Train and evaluate, or continue the run that the folder holds.

  Args:
    config: Config with the fields of `pnjax.config`.
    workdir: Folder of the run.
    devices: Devices to use; all by default.
    cache: Folder of cached features; see `features.cached_feature_maps`.

  Returns:
    The contents of `result.json`, or None if the run was asked to stop early.
  """
  start = time.monotonic()
  workdir = pathlib.Path(workdir)
  experiment = open_experiment(config, runtime.Devices(devices))
  _checks.check_batch_size(config, experiment.train_split)
  runs.create_workdir(workdir)
  with contextlib.ExitStack() as stack:
    if experiment.devices.is_first:
      stack.enter_context(runtime.lock_folder(workdir))
    runs.prepare_workdir(workdir, config, experiment.fingerprints, experiment.devices)
    result = runs.read_result(workdir)
    if result is not None and _is_complete(experiment, workdir, result):
      return result

    # Before signals are caught, since extracting features can be interrupted any time.
    train_inputs, test_inputs = experiment.inputs(cache)
    checkpoints = stack.enter_context(runs.Checkpoints(workdir / "checkpoints"))

    with runtime.StopRequest() as stop:
      model_info = _describe_model_once(experiment, workdir)
      task = experiment.task(model_info.suggested)
      state, position = experiment.initial_state(task), _Position()
      batches = iter(train_inputs.train_batches())
      _remove_damaged(checkpoints, experiment.devices)
      saved_step = checkpoints.latest_step
      if saved_step is not None:
        state, saved_position = checkpoints.restore(state)
        position = _Position(**saved_position)
        batches.set_state(position.data)
      state = experiment.devices.replicate(state)
      train_step = experiment.devices.parallelize(
        functools.partial(_step.train_step, task), donate=True
      )
      if position.step < experiment.num_steps:
        _memory.check_step(train_step, state, train_inputs)
      evaluate = make_evaluate(experiment, task, test_inputs)

      records = stack.enter_context(
        runs.Records(
          workdir if experiment.devices.is_first else None,
          {"train": position.step, "test": position.evaluated},
        )
      )
      progress = stack.enter_context(
        runtime.Progress(
          position.step * config.train.batch_size,
          experiment.num_steps * config.train.batch_size,
          quiet=not experiment.devices.is_first,
        )
      )
      progress.print(_describe(experiment, position, model_info.suggested))
      while True:
        step = position.step
        finished = step == experiment.num_steps
        stopping = _should_stop(stop, experiment, step)
        if (
          not (stopping or finished)  # The last evaluation is that of the result.
          and step != position.evaluated
          and _is_due(experiment, step, config.train.eval_every)
        ):
          check_finite(state, saved_step)
          outcomes = evaluate(state.variables)
          position.evaluated = step
          _report(experiment, step, outcomes, records, progress)
        if step != saved_step and (
          stopping
          or finished
          or _is_due(experiment, step, config.train.checkpoint_every)
        ):
          check_finite(state, saved_step)
          elapsed = position.elapsed + time.monotonic() - start
          _save(checkpoints, records, state, batches, position, elapsed)
          saved_step = step
        if stopping or finished:
          break

        state = _take_step(train_step, state, next(batches), experiment)
        position.step += 1
        progress.advance(config.train.batch_size)
        if _record_is_due(experiment, position.step):
          check_finite(state, saved_step)
          state = _record(state, position.step, records, progress, experiment.devices)

    if stopping:
      return None
    # Everything is saved, so that the rest can be interrupted any time.
    checkpoints.wait()
    variables = state.variables
    refit = None
    if config.classifier.refit:
      refit = refit_classifier(experiment, task, variables, train_inputs)
    outcomes = evaluate(variables, refit)
    _report(experiment, position.step, outcomes, records, progress)
    elapsed = position.elapsed + time.monotonic() - start
    return write_result(experiment, workdir, variables, outcomes, refit, elapsed)


def _is_complete(
  experiment: Experiment, workdir: pathlib.Path, result: Mapping[str, Any]
) -> bool:
  """Return whether a finished run has all its files; say what is written again."""
  damaged = runs.damaged_file(workdir, result)
  if not experiment.devices.any_host(damaged is not None):
    return True
  if not list((workdir / "checkpoints").glob("[0-9]*")):
    raise FileNotFoundError(
      f"{damaged} in {workdir} is missing or damaged, and there is no checkpoint to "
      "write it from. Remove result.json, and the same command trains again."
    )
  if experiment.devices.is_first:
    print(f"{damaged} is missing or damaged, and is written again", flush=True)
  return False


def _describe_model_once(
  experiment: Experiment, workdir: pathlib.Path
) -> runs.ModelInfo:
  """Return the model info that the first process of the run wrote."""
  if experiment.devices.is_first:
    runs.write_class_names(workdir, experiment.train_split.class_names)
    if runs.read_model_info(workdir) is None:
      suggested = experiment.suggest_parameters()
      info = runs.ModelInfo(experiment.backbone.recipe, suggested)
      runs.write_model_info(workdir, info)
  experiment.devices.barrier()
  return runs.require_model_info(workdir)


def _remove_damaged(checkpoints: runs.Checkpoints, devices: runtime.Devices) -> None:
  """Remove damaged checkpoints, and print what was wrong with them."""
  for reason in checkpoints.remove_damaged(devices):
    if devices.is_first:
      print(
        f"a checkpoint was damaged and is removed: {reason}. The run goes on from the "
        f"one of step {checkpoints.latest_step}.",
        file=sys.stderr,
        flush=True,
      )


def _describe(
  experiment: Experiment, position: _Position, suggested: Mapping[str, float]
) -> str:
  """Return a line about the work ahead."""
  begin = f", from step {position.step} of {experiment.num_steps}"
  values = ", ".join(f"{n} = {v:.4g}" for n, v in suggested.items())
  train_split, test_split = experiment.train_split, experiment.test_split
  num_epochs = runtime.counted(experiment.config.train.num_epochs, "epoch")
  return (
    f"{train_split.name}: {runtime.counted(len(train_split), 'image')} to train on "
    f"({train_split.split}), {len(test_split)} to evaluate on ({test_split.split}), "
    f"{experiment.num_classes} classes; {num_epochs} on "
    f"{experiment.devices.description}{begin if position.step else ''}"
    f"{f'; suggested: {values}' if values else ''}"
  )


def _should_stop(stop: runtime.StopRequest, experiment: Experiment, step: int) -> bool:
  """Return whether any host was asked to stop; hosts agree only at records."""
  if experiment.devices.num_hosts == 1:
    return bool(stop)
  return _record_is_due(experiment, step) and experiment.devices.any_host(bool(stop))


def _is_due(experiment: Experiment, step: int, every: int) -> bool:
  """Return whether something is due that happens every so many epochs."""
  return step > 0 and step % (every * experiment.epoch_steps) == 0


def _record_is_due(experiment: Experiment, step: int) -> bool:
  every = experiment.config.train.log_every
  return step % experiment.epoch_steps == 0 or step % every == 0


def _take_step(
  train_step: Callable,
  state: TrainState,
  batch: Mapping[str, np.ndarray],
  experiment: Experiment,
) -> TrainState:
  shards = experiment.devices.shard(batch, experiment.config.train.num_microbatches)
  with jax.transfer_guard("disallow"):
    state, _ = train_step(state, shards)
  return state


def _record(
  state: TrainState,
  step: int,
  records: runs.Records,
  progress: runtime.Progress,
  devices: runtime.Devices,
) -> TrainState:
  """Record the steps since the last record, and return a state with new sums."""
  sums = runtime.to_host(state.sums)
  loss, top1 = (float(x / sums.count) for x in (sums.loss, sums.correct))
  records.write(step, "train", {"loss": loss, "top1": top1})
  records.write_timing(step, {"images_per_second": progress.images_per_second})
  return state.replace(sums=devices.replicate(RunningSums.zero()))


def _report(
  experiment: Experiment,
  step: int,
  outcomes: Mapping[str, _evaluation.Outcome],
  records: runs.Records,
  progress: runtime.Progress,
) -> None:
  """Record and print the metrics of an evaluation."""
  epoch, num_epochs = step / experiment.epoch_steps, experiment.config.train.num_epochs
  for classifier, outcome in outcomes.items():
    names = ("loss", "top1", "mean_per_class")
    loss, top1, mean = (outcome.metrics[name] for name in names)
    if classifier == "softmax":
      records.write(step, "test", {"loss": loss, "top1": top1, "mean_per_class": mean})
      progress.note(f"top-1 {top1:.2%}")
    progress.print(
      f"epoch {epoch:g} of {num_epochs}, {classifier}: top-1 {top1:.2%}, mean per "
      f"class {mean:.2%}, loss {loss:.4f}"
    )


def _save(
  checkpoints: runs.Checkpoints,
  records: runs.Records,
  state: TrainState,
  batches: Any,
  position: _Position,
  elapsed: float,
) -> None:
  """Save a checkpoint, after the records that led to it."""
  records.flush()
  saved = dataclasses.replace(position, elapsed=elapsed, data=batches.get_state())
  checkpoints.save(position.step, state, dataclasses.asdict(saved))
