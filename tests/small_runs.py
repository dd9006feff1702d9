"""Small runs, in their own processes where needed, and the files that they write."""

import json
import os
import pathlib
import socket
import subprocess
import sys

from flax import traverse_util
import jax
import numpy as np
from PIL import Image

from experiments.configs import methods
from pnjax import config as config_lib
from pnjax import data
from pnjax import models
from pnjax import pretrained
from pnjax import runs
from pnjax import train

ROOT = pathlib.Path(__file__).parents[1]
PATIENCE = 300  # Seconds, for a busy machine.

_CONFIG_FILE = """
import ml_collections


def get_config():
  return ml_collections.ConfigDict({})
"""


def prepare(folder):
  """Prepares a few images of each class, and returns their `data_dir`."""
  rng = np.random.default_rng(0)
  for split, count in (("train", 8), ("test", 5)):
    for name in ("dark", "light", "striped"):
      images = folder / "images" / split / name
      images.mkdir(parents=True)
      for i in range(count):
        Image.fromarray(_image(name, rng)).save(images / f"{i}.png")
  data.prepare("folder", folder / "images", folder / "prepared")
  return folder / "prepared"


def _image(name, rng):
  image = rng.integers(0, 100, (32, 32, 3))
  if name == "light":
    image += 100
  if name == "striped":
    image[::4] += 120
  return image.astype(np.uint8)


def write_alexnet(folder):
  """Writes random weights of AlexNet, and returns the file."""
  model = models.AlexNet()
  variables = model.init(jax.random.key(0), np.zeros((1, 64, 64, 3), np.float32))
  name = "alexnet_torchvision"
  path = folder / "alexnet.safetensors"
  pretrained.save(
    path, pretrained.Pretrained(name, pretrained.RECIPES[name], model, variables)
  )
  return path


def make_config(data_dir):
  """The config of a run that takes a few seconds: 2 epochs of 3 steps."""
  config = config_lib.get_config()
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
  config.pooling.eta_prime = 100.0
  config.pooling.alpha = 0.3
  return config


def make_frozen_config(data_dir, weights):
  """The same for a frozen AlexNet."""
  config = make_config(data_dir)
  config.backbone.name = "alexnet"
  config.backbone.weights = str(weights)
  config.dataset.image_size = 64
  config.dataset.augment = "none"
  config.train.trainable = "none"
  return config


def run(config, workdir, num_devices=1):
  """Trains and evaluates in this process."""
  return train.train_and_evaluate(config, workdir, jax.devices()[:num_devices])


def write_config(config, path):
  """Writes a config as a file for `--config`."""
  path.write_text(_CONFIG_FILE.format(config.to_dict()))
  return path


def start(*args, compilation_cache, num_devices=1):
  """Starts `experiments.main`, with text pipes for its output.

  Args:
    *args: Arguments of the command.
    compilation_cache: Folder of compiled programs.
    num_devices: Number of devices of the process.
  """
  xla_flags = (
    f"--xla_force_host_platform_device_count={num_devices}",
    "--xla_backend_optimization_level=0",  # Compiles in half the time.
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
  """Environment variables that keep all compiled programs in a folder."""
  return {
    "JAX_COMPILATION_CACHE_DIR": str(folder),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
  }


def finish(*processes, stopped=False):
  """Waits for processes to end well, and returns what each of them printed.

  Args:
    *processes: Processes from `start`.
    stopped: Whether they were asked to stop early.
  """
  outputs = []
  try:
    for process in processes:
      output, errors = process.communicate(timeout=PATIENCE)
      assert process.returncode == (130 if stopped else 0), errors
      if stopped:
        assert "Traceback" not in errors, errors
      else:
        assert errors == ""
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
  with runs.Checkpoints(workdir / "checkpoints") as checkpoints:
    tree = checkpoints.read()
  return traverse_util.flatten_dict(tree, sep="/")


def assert_same_run(actual, expected):
  assert metrics(actual) == metrics(expected)
  actual, expected = parameters(actual), parameters(expected)
  assert actual.keys() == expected.keys()
  for name, x in expected.items():
    np.testing.assert_array_equal(actual[name], x, err_msg=name)


def assert_same_losses(actual, expected, rtol):
  pairs = zip(runs.read_records(actual), runs.read_records(expected), strict=True)
  for a, b in pairs:
    assert (a["step"], a["split"]) == (b["step"], b["split"])
    np.testing.assert_allclose(a["loss"], b["loss"], rtol=rtol)
