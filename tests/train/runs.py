"""Small runs, in processes of their own where needed, and what they leave behind."""

import json
import os
import pathlib
import socket
import subprocess
import sys

from flax import traverse_util
import numpy as np
from PIL import Image

from experiments.configs import default
from experiments.configs import methods
from pnjax import data
from pnjax.train import checkpoint
from pnjax.train import records

ROOT = pathlib.Path(__file__).parents[2]
PATIENCE = 300  # Seconds, for a machine that is busy.

_CONFIG_FILE = """
import ml_collections


def get_config():
  return ml_collections.ConfigDict({})
"""


def prepare(folder):
  """Prepares a few pictures of each class, and returns their `data_dir`."""
  rng = np.random.default_rng(0)
  for split, count in (("train", 8), ("test", 5)):
    for name in ("dark", "light", "striped"):
      pictures = folder / "pictures" / split / name
      pictures.mkdir(parents=True)
      for i in range(count):
        Image.fromarray(_picture(name, rng)).save(pictures / f"{i}.png")
  data.prepare("folder", folder / "pictures", folder / "prepared")
  return folder / "prepared"


def _picture(name, rng):
  picture = rng.integers(0, 100, (32, 32, 3))
  if name == "light":
    picture += 100
  if name == "striped":
    picture[::4] += 120
  return picture.astype(np.uint8)


def make_config(data_dir):
  """A run of a few seconds: 2 epochs of 3 steps."""
  config = default.get_config()
  config.dataset.name = "folder"
  config.dataset.data_dir = str(data_dir)
  config.dataset.image_size = 32
  config.backbone.name = "tiny_resnet"
  config.optim.learning_rate = 1e-3
  config.train.batch_size = 8
  config.train.num_epochs = 2
  config.train.log_every = 2
  config.train.num_threads = 1
  methods.apply(config, "sop_sc_sigme")
  config.head.eta_prime = 100.0
  config.head.alpha = 0.3
  return config


def write_config(config, path):
  """Writes a config as a file for `--config`."""
  path.write_text(_CONFIG_FILE.format(config.to_dict()))
  return path


def start(*args, compilation_cache, num_devices=1):
  """Starts `experiments.main`; its output comes as text through pipes.

  Args:
    *args: of the command.
    compilation_cache: folder of what was compiled.
    num_devices: that the process has.
  """
  xla_flags = (
    f"--xla_force_host_platform_device_count={num_devices}",
    "--xla_backend_optimization_level=0",  # Compiles in less than half of the time.
  )
  return subprocess.Popen(
    [sys.executable, "-m", "experiments.main", *args],
    cwd=ROOT,
    env=os.environ | caching(compilation_cache) | {"XLA_FLAGS": " ".join(xla_flags)},
    stdout=subprocess.PIPE,
    stderr=subprocess.PIPE,
    text=True,
  )


def caching(folder):
  """Variables of an environment that keeps in a folder all that is compiled."""
  return {
    "JAX_COMPILATION_CACHE_DIR": str(folder),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
  }


def finish(*processes, stopped=False):
  """Waits for the good end of processes, and returns what each of them printed.

  Args:
    *processes: that `start` returned.
    stopped: whether they were asked to stop before their end.
  """
  outputs = []
  try:
    for process in processes:
      output, errors = process.communicate(timeout=PATIENCE)
      assert process.returncode == (130 if stopped else 0), errors
      assert "Traceback" not in errors if stopped else errors == ""
      outputs.append(output)
  finally:
    for process in processes:
      process.kill()
  return outputs


def free_port():
  with socket.socket() as s:
    s.bind(("localhost", 0))
    return s.getsockname()[1]


def metrics(workdir):
  return (workdir / "metrics.jsonl").read_text()


def result(workdir):
  return json.loads((workdir / "result.json").read_text())


def parameters(workdir):
  """All arrays of the last checkpoint, by their names."""
  with checkpoint.Checkpoints(workdir / "checkpoints") as checkpoints:
    tree = checkpoints.read()
  return traverse_util.flatten_dict(tree, sep="/")


def assert_same_run(actual, expected):
  assert metrics(actual) == metrics(expected)
  actual, expected = parameters(actual), parameters(expected)
  assert actual.keys() == expected.keys()
  for name, x in expected.items():
    np.testing.assert_array_equal(actual[name], x, err_msg=name)


def assert_same_losses(actual, expected, rtol):
  pairs = zip(records.read(actual), records.read(expected), strict=True)
  for a, b in pairs:
    assert (a["step"], a["split"]) == (b["step"], b["split"])
    np.testing.assert_allclose(a["loss"], b["loss"], rtol=rtol)
