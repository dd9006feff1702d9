"""Several CPU devices have enough threads for spectral functions."""

import os
import pathlib
import subprocess
import sys

import jax
import pytest

from pnjax import _cpu_threads
from pnjax import runtime

ROOT = pathlib.Path(__file__).parents[1]
DEMO = "experiments/configs/demo.py:sop_sc_spec_gamma"

# Steps of training, started without waiting for those before. They hang soon if all
# threads wait in decompositions.
STEPS = """
import jax
import jax.numpy as jnp
import numpy as np

from pnjax import ops
from pnjax import runtime


def loss(kernel, phi):
  return jnp.sum(ops.spectral_gamma_pool(phi @ kernel, 0.5) ** 2)


def step(kernel, batch, psum):
  gradient = psum(jax.grad(loss)(kernel, batch["phi"]))
  return kernel - 1e-6 * gradient, jnp.zeros(())


devices = runtime.Devices()
phi = np.random.default_rng(0).normal(size=(32, 64, 24)).astype(np.float32)
batch = devices.shard({"phi": phi, "label": np.zeros(32, np.int32)})
step = devices.parallelize(step, donate=True)
kernel = jnp.eye(24)
for _ in range(300):
  kernel, _ = step(kernel, batch)
print(jax.device_count(), bool(jnp.all(jnp.isfinite(kernel))))
"""


def set_num_devices(monkeypatch, number):
  monkeypatch.setattr(type(jax.config), "jax_num_cpu_devices", number)


@pytest.fixture
def variables(monkeypatch):
  """Environment without variables that decide on devices and threads."""
  set_num_devices(monkeypatch, -1)
  monkeypatch.setattr(_cpu_threads, "_num_cores", lambda: 2)
  # Set before it is deleted, so that it is restored even where it was missing.
  for name in ("NPROC", "PJRT_NPROC", "XLA_FLAGS"):
    monkeypatch.setenv(name, "")
    monkeypatch.delenv(name)
  return monkeypatch


def reserved():
  _cpu_threads.reserve()
  return os.environ.get("PJRT_NPROC")


def test_a_single_device_is_left_alone(variables):
  assert reserved() is None


@pytest.mark.parametrize(("num_devices", "num_threads"), [(2, "5"), (3, "7")])
def test_devices_of_the_config(variables, num_devices, num_threads):
  set_num_devices(variables, num_devices)
  assert reserved() == num_threads


def test_the_last_flag_of_xla_counts(variables):
  flag = "--xla_force_host_platform_device_count"
  variables.setenv("XLA_FLAGS", f"{flag}=8 --xla_cpu_use_fusion_emitters=1 {flag}=2")
  assert reserved() == "5"


def test_the_config_comes_before_flags(variables):
  variables.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=8")
  set_num_devices(variables, 2)
  assert reserved() == "5"


@pytest.mark.parametrize(("num_cores", "num_threads"), [(4, "5"), (5, None)])
def test_enough_cores_are_left_alone(variables, num_cores, num_threads):
  set_num_devices(variables, 2)
  variables.setattr(_cpu_threads, "_num_cores", lambda: num_cores)
  assert reserved() == num_threads


@pytest.mark.parametrize("name", ["NPROC", "PJRT_NPROC"])
def test_a_value_of_the_user_is_kept(variables, name):
  set_num_devices(variables, 2)
  variables.setenv(name, "3")
  assert reserved() == ("3" if name == "PJRT_NPROC" else None)
  assert os.environ[name] == "3"


def test_devices_set_after_the_import_count(variables):
  set_num_devices(variables, 2)
  runtime.Devices()
  assert os.environ["PJRT_NPROC"] == "5"


def run_on_two_devices(*args, timeout):
  """Runs Python on two devices and at most two cores, and returns what it prints."""
  pin = (
    "import os, sys; os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2]); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
  )
  ours = ("NPROC", "PJRT_NPROC", "XLA_FLAGS")  # The tests' own would be inherited.
  env = {name: value for name, value in os.environ.items() if name not in ours}
  done = subprocess.run(
    [sys.executable, "-c", pin, *args],
    cwd=ROOT,
    env=env | {"JAX_NUM_CPU_DEVICES": "2", "JAX_PLATFORMS": "cpu"},
    capture_output=True,
    text=True,
    timeout=timeout,
  )
  assert done.returncode == 0, done.stderr
  return done.stdout


needs_affinity = pytest.mark.skipif(
  not hasattr(os, "sched_setaffinity"), reason="cores cannot be chosen here"
)


@needs_affinity
def test_steps_with_decompositions_end():
  assert run_on_two_devices("-c", STEPS, timeout=60).split() == ["2", "True"]


@needs_affinity
@pytest.mark.slow
@pytest.mark.parametrize("time", ["first", "second"])
def test_the_spectral_demo_ends(tmp_path, time):
  run_on_two_devices(
    *("-m", "experiments.main", f"--config={DEMO}", "--config.train.num_epochs=2"),
    f"--workdir={tmp_path / 'run'}",
    timeout=300,
  )
  assert (tmp_path / "run/result.json").exists()
