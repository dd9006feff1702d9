"""Runs that are killed or stopped, and resumed by the same command."""

import os
import shutil
import signal
import time

import numpy as np
import pytest

from tests import small_runs as runs

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def start(data_dir, tmp_path_factory, compilation_cache):
  """Starts the command that begins or continues a run in a folder."""
  return _starter(8, data_dir, tmp_path_factory.mktemp("config"), compilation_cache)


def _starter(num_epochs, data_dir, folder, compilation_cache):
  config = runs.make_config(data_dir)
  config.train.num_epochs = num_epochs
  file = runs.write_config(config, folder / "config.py")
  return lambda workdir: runs.start(
    f"--config={file}", f"--workdir={workdir}", compilation_cache=compilation_cache
  )


@pytest.fixture(scope="module")
def whole(start, tmp_path_factory):
  """The folder of a run that nothing disturbs."""
  workdir = tmp_path_factory.mktemp("whole")
  runs.finish(start(workdir))
  return workdir


def test_a_run_that_is_killed_ten_times(data_dir, tmp_path, rng):
  start = _starter(24, data_dir, tmp_path, tmp_path / "compiled")
  runs.finish(start(tmp_path / "whole"))
  # A killed process may leave half of a compiled program, of which JAX warns.
  shutil.copytree(tmp_path / "compiled", tmp_path / "half_compiled")
  start_killed = _starter(24, data_dir, tmp_path, tmp_path / "half_compiled")
  moments = ["early", "in a save", "later", "early", "later"] * 2
  _kill(moments, start_killed, tmp_path / "killed", rng)
  _assert_continues(start, tmp_path / "killed", tmp_path / "whole")


def _kill(moments, start, workdir, rng):
  """Starts a run repeatedly, and kills it at the given moments."""
  checkpoints = workdir / "checkpoints"
  for moment in moments:
    process = start(workdir)
    try:
      _wait_for(moment, process, checkpoints, rng)
      assert process.poll() is None, process.communicate()
    finally:
      process.kill()
      process.communicate()
    assert _incomplete(checkpoints) or moment != "in a save"


def _assert_continues(start, workdir, whole):
  runs.finish(start(workdir))
  assert not _incomplete(workdir / "checkpoints")
  runs.assert_same_run(workdir, whole)
  assert _measures(workdir) == _measures(whole)


def _wait_for(moment, process, checkpoints, rng):
  """Returns at the given moment of a run."""
  if moment == "early":  # While it imports, or restores the last checkpoint.
    time.sleep(rng.uniform(0, 4))
    return
  target = _newest(checkpoints) + 3 * rng.integers(1, 3)
  deadline = time.monotonic() + runs.PATIENCE
  while process.poll() is None and _newest(checkpoints) < target:
    assert time.monotonic() < deadline, "no checkpoint is written"
    time.sleep(1e-3)
  if moment == "later":
    time.sleep(rng.uniform(0, 0.1))


def _newest(checkpoints):
  """The last step whose checkpoint was begun."""
  names = os.listdir(checkpoints) if checkpoints.exists() else []
  return max((int(name.split(".")[0]) for name in names), default=0)


def _incomplete(checkpoints):
  """Checkpoints that were begun and not completed."""
  names = os.listdir(checkpoints) if checkpoints.exists() else []
  return [name for name in names if not name.isdecimal()]


def _measures(workdir):
  result = runs.result(workdir)
  with np.load(workdir / "predictions.npz") as arrays:
    predictions = {name: arrays[name].tolist() for name in arrays}
  return [result[name] for name in ("top1", "loss", "per_class", "refit")], predictions


def test_ctrl_c_leaves_a_run_that_continues(start, whole, tmp_path):
  process = start(tmp_path)
  assert "24 images to train on" in process.stdout.readline()
  process.send_signal(signal.SIGINT)
  (output,) = runs.finish(process, stopped=True)
  assert output.endswith(
    f"stopped; the same command continues. Everything is in {tmp_path}\n"
  )
  assert not (tmp_path / "result.json").exists()
  (output,) = runs.finish(start(tmp_path))
  assert "\r" not in output
  assert "\x1b" not in output
  runs.assert_same_run(tmp_path, whole)
