"""The classifier of a trained network, solved again in closed form."""

from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import dataclasses
import os
import pathlib
from typing import Any

import jax
import numpy as np

from pnjax import probe
from pnjax import runs
from pnjax import runtime
from pnjax.train import _step
from pnjax.train._experiment import Experiment
from pnjax.train._experiment import open_experiment
from pnjax.train._inputs import Inputs
from pnjax.train._result import make_evaluate
from pnjax.train._result import write_result


def refit_run(
  workdir: str | os.PathLike,
  devices: Sequence[jax.Device] | None = None,
  cache: str | os.PathLike | None = None,
) -> dict[str, Any]:
  """Refits the classifier of a finished run, and evaluates the run again.

  Args:
    workdir: Folder of the run.
    devices: Devices to use; all by default.
    cache: Folder of cached features; see `features.cached_feature_maps`.

  Returns:
    The new contents of `result.json`.

  Raises:
    FileNotFoundError: if the folder holds no run, or one that is not finished.
    ValueError: if the images or the weights of the run have changed.
  """
  workdir = pathlib.Path(workdir)
  config, result = runs.read_config(workdir), runs.read_finished(workdir)
  info = runs.require_model_info(workdir)
  experiment = open_experiment(config, runtime.Devices(devices))
  with contextlib.ExitStack() as stack:
    if experiment.devices.is_first:
      stack.enter_context(runtime.lock_folder(workdir))
    runs.prepare_workdir(workdir, config, experiment.fingerprints, experiment.devices)
    train_inputs, test_inputs = experiment.inputs(cache)
    task = experiment.task(info.suggested)
    folder = workdir / "checkpoints"
    checkpoints = stack.enter_context(runs.Checkpoints(folder, read_only=True))
    checkpoints.check()
    state, _ = checkpoints.restore(experiment.initial_state(task))
    variables = experiment.devices.replicate(state.variables)
    refit = refit_classifier(experiment, task, variables, train_inputs)
    outcomes = make_evaluate(experiment, task, test_inputs)(variables, refit)
    return write_result(
      experiment, workdir, variables, outcomes, refit, result["wall_seconds"]
    )


def refit_classifier(
  experiment: Experiment,
  task: _step.Task,
  variables: Mapping[str, Any],
  inputs: Inputs,
) -> probe.Refit:
  """Fits a linear classifier to the pooled vectors of all views of all images.

  Args:
    experiment: Config, data and devices of the run.
    task: The network.
    variables: Its variables, replicated over all devices.
    inputs: Examples to train on.
  """
  task = dataclasses.replace(task, model=task.model.clone(normalize=True))
  devices = experiment.devices
  step = devices.parallelize(
    lambda variables, batch, psum: ((), _step.pool_step(task, variables, batch)),
    donate=False,
  )

  def pool(rows: np.ndarray) -> Iterator[np.ndarray]:
    for batch in inputs.eval_batches(rows):
      index = batch.pop("index")
      _, shards = step(variables, devices.shard(batch))
      vectors = np.concatenate(np.asarray(shards))[: len(index)]
      yield devices.gather_examples(vectors, index)[0]

  length = variables["params"]["classifier"]["kernel"].shape[0]
  labels = inputs.labels
  vectors = probe.PooledVectors(pool, np.arange(len(labels)), length)
  if devices.is_first:
    print(
      f"refit: {runtime.counted(len(labels), 'pooled vector')} of {length} entries, "
      f"{vectors.num_bytes / 1e9:.2g} GB",
      flush=True,
    )
  return probe.refit(vectors, labels, experiment.num_classes, inputs.num_views)
