"""The same config on different numbers of devices and hosts."""

import signal

import numpy as np
import pytest

from tests import small_runs as runs

_MEASURES = ("top1", "mean_per_class", "per_class", "num_examples", "num_steps")


@pytest.fixture(scope="module")
def start(data_dir, tmp_path_factory, compilation_cache):
  """Starts the command that begins or continues a run in a folder."""
  config = runs.make_config(data_dir)
  config.train.num_epochs = 4
  file = runs.write_config(config, tmp_path_factory.mktemp("config") / "config.py")
  return lambda workdir, *args, num_devices=1: runs.start(
    f"--config={file}",
    f"--workdir={workdir}",
    *args,
    num_devices=num_devices,
    compilation_cache=compilation_cache,
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


def _start_hosts(start, workdir):
  coordinator = f"--coordinator=localhost:{runs.free_port()}"
  return [
    start(workdir, coordinator, "--num_hosts=2", f"--host={host}") for host in range(2)
  ]


def _own_lines(output):
  """Lines that are not of the network between the hosts."""
  return [line for line in output.splitlines() if not line.startswith("[Gloo]")]
