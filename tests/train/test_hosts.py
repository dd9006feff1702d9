"""The same config on different numbers of devices and hosts."""

import functools
import shutil
import signal
import time

import numpy as np
import pytest

from tests import small_runs as runs

_MEASURES = ("top1", "mean_per_class", "per_class", "num_examples", "num_steps")


@pytest.fixture(scope="module")
def start(data_dir, tmp_path_factory, compilation_cache):
  """Starts the command that begins or continues a run in a folder."""
  config = runs.make_config(data_dir)
  config.train.num_epochs = 6
  file = runs.write_config(config, tmp_path_factory.mktemp("config") / "config.py")
  return lambda workdir, *args, cache=compilation_cache, num_devices=1: runs.start(
    f"--config={file}",
    f"--workdir={workdir}",
    *args,
    num_devices=num_devices,
    compilation_cache=cache,
  )


@pytest.fixture(scope="module")
def alone(start, tmp_path_factory):
  """The folder of a run on one device."""
  workdir = tmp_path_factory.mktemp("alone")
  runs.finish(start(workdir))
  return workdir


def assert_same_outcome(actual, expected):
  runs.assert_same_losses(actual, expected, rtol=1e-5)
  actual_result, expected_result = runs.result(actual), runs.result(expected)
  for name in _MEASURES:
    assert actual_result[name] == expected_result[name], name
  np.testing.assert_allclose(actual_result["loss"], expected_result["loss"], rtol=1e-5)
  for name in ("prediction", "refit"):
    np.testing.assert_array_equal(
      *(np.load(w / "predictions.npz")[name] for w in (actual, expected))
    )


@pytest.mark.slow
def test_four_devices(start, alone, tmp_path):
  (output,) = runs.finish(start(tmp_path, num_devices=4))
  assert "on 4 × cpu" in output
  assert_same_outcome(tmp_path, alone)


@pytest.mark.slow
def test_two_hosts_of_which_one_is_stopped(start, alone, tmp_path):
  first, second = _start_hosts(start, tmp_path)
  while "2 hosts" not in (line := first.stdout.readline()):
    assert line, first.communicate()
  second.send_signal(signal.SIGTERM)
  output, of_second = runs.finish(first, second, stopped=True)
  assert "stopped; the same command continues" in output
  assert _own_lines(of_second) == []
  assert not (tmp_path / "result.json").exists()

  output, of_second = runs.finish(*_start_hosts(start, tmp_path))
  assert "everything is in" in output
  assert _own_lines(of_second) == []
  assert_same_outcome(tmp_path, alone)


@pytest.mark.slow
def test_two_hosts_of_which_one_is_killed_five_times(start, tmp_path, rng):
  start = functools.partial(start, cache=tmp_path / "compiled")
  runs.finish(*_start_hosts(start, tmp_path / "whole"))
  # A killed process may leave half of a compiled program, of which JAX warns.
  shutil.copytree(tmp_path / "compiled", tmp_path / "half_compiled")
  start_killed = functools.partial(start, cache=tmp_path / "half_compiled")
  workdir = tmp_path / "killed"
  moments = ["early", "later", "in a save", "later", "in a save"]
  for i, moment in enumerate(moments):
    hosts = _start_hosts(start_killed, workdir)
    victim, other = hosts[i % 2], hosts[1 - i % 2]
    try:
      _wait_for(moment, victim, workdir / "checkpoints", rng)
      assert victim.poll() is None, victim.communicate()
    finally:
      victim.kill()
      victim.communicate()
    _, errors = other.communicate(timeout=60)
    assert errors == (
      f"error: host {i % 2} was killed or cannot be reached any more; start all hosts "
      "again to continue.\n"
    )
    assert other.returncode == 1
  runs.finish(*_start_hosts(start, workdir))
  runs.assert_same_run(workdir, tmp_path / "whole")


def _wait_for(moment, process, checkpoints, rng):
  """Returns at a random moment, or where the next checkpoint is written."""
  assert "[Gloo]" in process.stdout.readline()  # The hosts are connected.
  if moment == "early":
    time.sleep(rng.uniform(0, 2))
    return
  known = _steps(checkpoints)
  deadline = time.monotonic() + runs.PATIENCE
  while process.poll() is None and _steps(checkpoints) <= known:
    assert time.monotonic() < deadline, "no checkpoint is written"
    time.sleep(1e-3)
  if moment == "later":
    time.sleep(rng.uniform(0, 0.2))


def _steps(checkpoints):
  """The steps whose checkpoints were begun."""
  names = checkpoints.glob("*") if checkpoints.exists() else []
  return {int(path.name.split(".")[0]) for path in names}


@pytest.mark.slow
def test_two_hosts_share_cached_features(
  data_dir, alexnet_weights, compilation_cache, tmp_path, monkeypatch
):
  config = runs.make_frozen_config(data_dir, alexnet_weights)
  config.train.cache_features = True
  config.train.cached_views = 2
  config.classifier.refit = True
  file = runs.write_config(config, tmp_path / "config.py")

  def start_frozen(workdir, *args):
    monkeypatch.setenv("PNJAX_CACHE", str(workdir / "cache"))
    arguments = f"--config={file}", f"--workdir={workdir}", *args
    return runs.start(*arguments, compilation_cache=compilation_cache)

  runs.finish(start_frozen(tmp_path / "alone"))
  runs.finish(*_start_hosts(start_frozen, tmp_path / "together"))
  assert_same_outcome(tmp_path / "together", tmp_path / "alone")
  alone, together = (
    sorted((tmp_path / name / "cache").rglob("maps")) for name in ("alone", "together")
  )
  assert len(alone) == len(together) == 2
  for one, other in zip(alone, together, strict=True):
    assert one.read_bytes() == other.read_bytes()


@pytest.mark.slow
def test_two_hosts_with_other_configs(start, tmp_path):
  first, second = _start_hosts(start, tmp_path, "--config.train.batch_size=16")
  _, errors = first.communicate(timeout=runs.PATIENCE)
  _, errors_of_second = second.communicate(timeout=runs.PATIENCE)
  assert "train.batch_size was 8 and is 16" in errors_of_second
  assert errors == errors_of_second.replace("error: ", "error: host 1 failed: ")
  assert first.returncode == second.returncode == 1


def _start_hosts(start, workdir, *args_of_second):
  coordinator = f"--coordinator=localhost:{runs.free_port()}"
  return [
    start(workdir, coordinator, "--num_hosts=2", f"--host={host}", *args)
    for host, args in enumerate([(), args_of_second])
  ]


def _own_lines(output):
  """Lines that are not of the network between the hosts."""
  return [line for line in output.splitlines() if not line.startswith("[Gloo]")]
