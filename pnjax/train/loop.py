"""Training of a classifier from a config, to its end or until it is to stop."""

from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import functools
import os
import pathlib
import time
from typing import Any

import grain
import jax
import ml_collections
import numpy as np

from pnjax.train import build
from pnjax.train import checks
from pnjax.train import devices as devices_lib
from pnjax.train import evaluation
from pnjax.train import features
from pnjax.train import freezing
from pnjax.train import heads
from pnjax.train import inputs
from pnjax.train import locks
from pnjax.train import optimizer
from pnjax.train import restore
from pnjax.train import state as state_lib
from pnjax.train import step as step_lib
from pnjax.train import workdir as workdir_lib
from pnjax.train.checkpoint import Checkpoints
from pnjax.train.devices import Devices
from pnjax.train.progress import Progress
from pnjax.train.records import Records
from pnjax.train.signals import StopRequest


class NonFiniteLossError(Exception):
  """The loss or its gradient became infinite or NaN."""


def train_and_evaluate(
  config: ml_collections.ConfigDict,
  workdir: str | os.PathLike,
  devices: Sequence[jax.Device] | None = None,
  cache: str | os.PathLike | None = None,
) -> dict[str, Any] | None:
  """Trains and evaluates, or continues where a run in the same folder stopped.

  Args:
    config: with the fields of `experiments/configs/default.py`.
    workdir: folder for everything that comes out.
    devices: to be used; all there are by default.
    cache: folder of cached features; see `features.cached_maps`.

  Returns:
    What `result.json` holds, or None if the run was asked to stop before its end.
  """
  began = time.monotonic()
  run = Run(config, pathlib.Path(workdir), Devices(devices), cache)
  if run.result is not None:
    return run.result
  with locks.hold(run.workdir) if run.devices.is_first else contextlib.nullcontext():
    run.cache_features()  # Before signals are caught: it can be stopped at any time.
    with (
      StopRequest() as stop,
      Checkpoints(run.workdir / "checkpoints") as checkpoints,
    ):
      run.start(checkpoints, began)
      _advance(run, stop, checkpoints)
  return run.finish() if run.is_over() else None


def _advance(run: "Run", stop: StopRequest, checkpoints: Checkpoints) -> None:
  """Goes on to the end of a run, or until it is to stop."""
  batch_size = run.config.train.batch_size
  with (
    run.open_records() as records,
    Progress(
      run.step * batch_size,
      run.num_steps * batch_size,
      quiet=not run.devices.is_first,
    ) as progress,
  ):
    progress.say(run.description)
    while True:
      stopping = run.is_to_stop(stop)
      if run.evaluation_is_due() and not stopping:
        run.evaluate(records, progress)
      if run.checkpoint_is_due() or stopping:
        run.save(checkpoints, records)
      if run.is_over() or stopping:
        break
      run.advance(progress)
      if run.record_is_due():
        run.record(records, progress)


class Run:
  """A run: what stays the same from step to step, and where it stands.

  Attributes:
    config: of the run.
    workdir: folder of the run.
    devices: that share the work.
    result: of a run that is finished already, or None.
    task: what is learned.
    num_steps: number of steps of the whole run.
    step: number of steps taken.
    state: of training, on all devices.
  """

  def __init__(
    self,
    config: ml_collections.ConfigDict,
    workdir: pathlib.Path,
    devices: Devices,
    cache: str | os.PathLike | None = None,
  ):
    """Checks everything that can be checked before anything is compiled."""
    self.config, self.workdir, self.devices = config, workdir, devices
    self._cache_root, self._cached = cache, None
    checks.check(config, devices.num_hosts)
    self._train_split, self._test_split = inputs.open_splits(config.dataset)
    self._backbone = build.backbone(config.backbone)
    build.check_image_size(config, self._backbone.model)
    # Checks what says how pictures are fed; nothing is read yet.
    inputs.train_batches(config, self._train_split, devices)
    inputs.eval_batches(config, self._test_split, devices)
    contents = inputs.fingerprints(self._train_split, self._test_split) | {
      "weights": self._backbone.fingerprint
    }
    workdir_lib.prepare(workdir, config, contents, devices)
    path = workdir / "result.json"
    self.result = workdir_lib.read_json(path) if path.exists() else None

  def cache_features(self) -> None:
    """Computes the maps of the frozen backbone, if the run learns from them."""
    if not self.config.train.cache_features:
      return
    splits = (self._train_split, self._test_split)
    maps = features.cached_maps(
      self.config,
      self._backbone,
      splits,
      self.devices,
      self._cache_root,
      self._cached_stage(),
    )
    self._cached = tuple(
      inputs.Cached(m, split.labels) for m, split in zip(maps, splits, strict=True)
    )

  def start(self, checkpoints: Checkpoints, began: float) -> None:
    """Makes the model, and takes up the last checkpoint if there is one."""
    config = self.config
    if self.devices.is_first:
      names = self._train_split.class_names
      workdir_lib.write_text(
        self.workdir / restore.CLASSES_FILE, "\n".join([*names, ""])
      )
    self._epoch_steps = -(-len(self._train_split) // config.train.batch_size)
    self.num_steps = self._epoch_steps * config.train.num_epochs
    self._suggested = self._suggest_once()
    self.task = self._make_task()
    variables = build.initialize(
      self.task.model, self._backbone, config.dataset.image_size, config.seed
    )
    learns = freezing.learns(
      state_lib.paths(variables), config.backbone.name, config.train.freeze
    )
    state = state_lib.create(variables, learns, self.task.optimizer, config.seed)
    self._batches = iter(self._train_batches())
    self._train_step, self._eval_step = (
      self.devices.parallel(functools.partial(f, self.task), donate=donate)
      for f, donate in ((step_lib.train_step, True), (step_lib.eval_step, False))
    )
    self.step, self._saved, self._evaluated, self._elapsed = 0, 0, 0, 0.0
    if checkpoints.latest_step is not None:
      state, position = checkpoints.restore(state)
      self._batches.set_state(position["data"])
      self.step = self._saved = position["step"]
      self._evaluated = position["evaluated"]
      self._elapsed = position["elapsed"]
    self._began = began
    self._evaluation = None
    self.state = self.devices.replicate(state)

  def _make_task(self) -> step_lib.Task:
    config, num_classes = self.config, len(self._train_split.class_names)
    schedule = optimizer.learning_rate(
      config.optim, self._epoch_steps, config.train.num_epochs
    )
    return step_lib.Task(
      model=build.classifier(config, self._backbone, num_classes, self._suggested),
      preprocess=self._backbone.preprocess,
      optimizer=optimizer.make(config.optim, schedule),
      num_classes=num_classes,
      label_smoothing=config.train.label_smoothing,
      accumulate=config.train.accumulate,
      after=self._cached_stage(),
    )

  def _cached_stage(self) -> str | None:
    if not self.config.train.cache_features:
      return None
    return freezing.last_frozen_stage(
      self.config.backbone.name, self.config.train.freeze
    )

  def _train_batches(self) -> grain.IterDataset:
    if self._cached is None:
      return inputs.train_batches(self.config, self._train_split, self.devices)
    return inputs.cached_train_batches(self.config, self._cached[0], self.devices)

  def _eval_batches(self) -> grain.IterDataset:
    if self._cached is None:
      return inputs.eval_batches(self.config, self._test_split, self.devices)
    return inputs.cached_eval_batches(self.config, self._cached[1], self.devices)

  def _suggest_once(self) -> Mapping[str, float]:
    """Returns parameters of the head that the config leaves open.

    They are suggested once and kept, with what else a model is made of that is not in
    the config.
    """
    path = self.workdir / restore.MODEL_FILE
    if self.devices.is_first and not path.exists():
      suggested = self._suggest() if heads.missing(self.config.head) else {}
      model = {"recipe": self._backbone.recipe, "suggested": suggested}
      workdir_lib.write_json(path, model)
    self.devices.wait()
    return restore.read_model(self.workdir)["suggested"]

  def _suggest(self) -> dict[str, float]:
    some = self._train_split.subset(heads.spread_over(len(self._train_split)))
    pictures = inputs.all_at_once(self.config, some)
    return build.suggest(self.config, self._backbone, pictures)

  @property
  def description(self) -> str:
    """What is about to be done, in a line."""
    config = self.config
    begun = f", from step {self.step} of {self.num_steps}" if self.step else ""
    values = ", ".join(f"{n} = {v:.4g}" for n, v in self._suggested.items())
    return (
      f"{config.dataset.name}: {len(self._train_split)} images to learn from, "
      f"{len(self._test_split)} to evaluate on, {self.task.num_classes} classes; "
      f"{config.train.num_epochs} epochs on {self.devices.description}{begun}"
      f"{f'; suggested: {values}' if values else ''}"
    )

  def open_records(self) -> Records:
    """Returns the records up to here; only the first host writes them."""
    folder = self.workdir if self.devices.is_first else None
    return Records(folder, {"train": self.step, "test": self._evaluated})

  def advance(self, progress: Progress) -> None:
    """Takes a step."""
    batch = self.devices.shard(next(self._batches), self.task.accumulate)
    with jax.transfer_guard("disallow"):
      self.state, _ = self._train_step(self.state, batch)
    self.step += 1
    progress.advance(self.config.train.batch_size)

  def record_is_due(self) -> bool:
    """Whether the loss is to be recorded after this step."""
    at_end = self.step % self._epoch_steps == 0
    return at_end or self.step % self.config.train.log_every == 0

  def record(self, records: Records, progress: Progress) -> None:
    """Records what was counted since the last record, and counts anew."""
    tally = self._finite_tally()
    loss, top1 = (float(x / tally.count) for x in (tally.loss, tally.correct))
    records.write(self.step, "train", {"loss": loss, "top1": top1})
    records.write_timing(self.step, {"images_per_second": progress.images_per_second})
    self.state = self.state.replace(
      tally=self.devices.replicate(state_lib.Tally.empty())
    )

  def _finite_tally(self) -> state_lib.Tally:
    tally = devices_lib.fetch(self.state.tally)
    if tally.bad_step >= 0:
      last = f"step {self._saved}" if self._saved else "none yet"
      raise NonFiniteLossError(
        f"the loss or its gradient is not finite at step {tally.bad_step}; the last "
        f"good checkpoint is kept ({last}). Try a smaller optim.learning_rate, "
        "optim.classifier_rate or optim.clip_norm."
      )
    return tally

  def evaluation_is_due(self) -> bool:
    """Whether to evaluate now."""
    if self.step == self._evaluated:
      return False
    every = self.config.train.eval_every * self._epoch_steps
    return self.step % every == 0 or self.step == self.num_steps

  def evaluate(self, records: Records, progress: Progress) -> None:
    """Evaluates and records the outcome."""
    self._finite_tally()
    self._evaluation = self._evaluate()
    self._evaluated = self.step
    summary = self._evaluation[0]
    measures = {name: summary[name] for name in ("loss", "top1", "mean_per_class")}
    records.write(self.step, "test", measures)
    progress.say(
      f"epoch {self.step / self._epoch_steps:g} of {self.config.train.num_epochs}: "
      f"top-1 {summary['top1']:.2%}, mean per class {summary['mean_per_class']:.2%}, "
      f"loss {summary['loss']:.4f}"
    )

  def _evaluate(self) -> tuple[dict[str, Any], np.ndarray]:
    return evaluation.evaluate(
      self._eval_step,
      self.state.variables,
      self._eval_batches(),
      len(self._test_split),
      self.task.num_classes,
      self.devices,
    )

  def checkpoint_is_due(self) -> bool:
    """Whether to save now."""
    if self.step == self._saved:
      return False
    every = self.config.train.checkpoint_every * self._epoch_steps
    return self.step % every == 0 or self.step == self.num_steps

  def is_over(self) -> bool:
    """Whether all steps were taken and the last evaluation was made."""
    return self.step == self.num_steps and not self.evaluation_is_due()

  def is_to_stop(self, stop: StopRequest) -> bool:
    """Whether any host was asked to stop; hosts ask each other at records only."""
    if self.devices.num_hosts == 1:
      return bool(stop)
    return self.record_is_due() and self.devices.agree(bool(stop))

  def save(self, checkpoints: Checkpoints, records: Records) -> None:
    """Saves the state, after the records that led to it."""
    if self.step == self._saved:
      return
    self._finite_tally()
    records.flush()
    position = {
      "step": self.step,
      "evaluated": self._evaluated,
      "elapsed": self._elapsed + time.monotonic() - self._began,
      "data": self._batches.get_state(),
    }
    checkpoints.save(self.step, self.state, position)
    self._saved = self.step

  def finish(self) -> dict[str, Any]:
    """Writes the result and the predictions, and returns the former."""
    summary, predictions = self._evaluation or self._evaluate()
    wall_seconds = self._elapsed + time.monotonic() - self._began
    names = self._train_split.class_names
    per_class = dict(zip(names, summary.pop("per_class"), strict=True))
    result = {
      **summary,
      "per_class": per_class,
      "num_steps": self.num_steps,
      "wall_seconds": round(wall_seconds, 1),
      "devices": self.devices.description,
      **workdir_lib.environment(),
    }
    if self.devices.is_first:
      np.savez(
        self.workdir / "predictions.npz",
        label=self._test_split.labels,
        prediction=predictions,
      )
      workdir_lib.write_json(self.workdir / "result.json", result)
    return result
