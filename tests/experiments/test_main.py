"""The output of `python -m experiments.main`, in its own process."""

import os
import subprocess
import sys

import numpy as np
import pytest

from experiments.configs import methods
from tests import small_runs as runs

DEMO = "experiments/configs/demo.py"


def run(*args, **environment):
  return subprocess.run(
    [sys.executable, "-m", "experiments.main", *map(str, args)],
    cwd=runs.ROOT,
    env={**os.environ, **environment},
    capture_output=True,
    text=True,
    timeout=300,
  )


def error_of(*args, **environment):
  """The one line that a failing command prints."""
  done = run(*args, **environment)
  assert (done.returncode, done.stdout) == (1, "")
  (line,) = done.stderr.splitlines()
  assert line.startswith("error: ")
  return line


def test_help_has_an_example_and_the_flags_of_the_command_only():
  done = run("--help")
  assert done.returncode == 0
  lines = done.stdout.splitlines()
  assert lines[0] == "Trains and evaluates a network from a config."
  assert any(line.strip().startswith("python -m experiments.main") for line in lines)
  flags = [x.split(":")[0].strip() for x in lines if x.startswith("  --")]
  assert flags == ["--config", "--coordinator", "--host", "--num_hosts", "--workdir"]
  assert len(lines) < 30
  assert max(map(len, lines)) <= 88
  assert done.stderr == ""


def test_help_does_not_wait_for_jax():
  done = subprocess.run(
    [sys.executable, "-X", "importtime", "-m", "experiments.main", "--help"],
    cwd=runs.ROOT,
    capture_output=True,
    text=True,
  )
  imported = {line.split("|")[-1].strip() for line in done.stderr.splitlines()}
  assert "ml_collections" in imported
  assert not imported & {"jax", "matplotlib", "orbax", "tensorflow_datasets", "torch"}


def test_a_mistyped_method_lists_the_known_ones(tmp_path):
  line = error_of(f"--config={DEMO}:sop_sigmee", f"--workdir={tmp_path / 'run'}")
  assert "the method is 'sop_sigmee'" in line
  assert all(name in line for name in methods.METHODS)


@pytest.mark.parametrize(
  ("args", "message"),
  [
    ([], "--config and --workdir must be given"),
    ([f"--config={DEMO}"], "--workdir must be given"),
    ([f"--config={DEMO}", "--workdir="], "--workdir is empty, expected a folder."),
    (["--config=demo.py", "--workdir=x"], "'demo.py', but there is no such file"),
    ([f"--config={DEMO}:sop,vgg"], "'vgg', expected one of resnet50, resnet18"),
    (
      [f"--config={DEMO}", "--config.train.epochs=3"],
      "config.train has no field 'epochs', expected one of batch_size, cache_",
    ),
    (
      [f"--config={DEMO}", "--config.trian.num_epochs=3"],
      "config has no field 'trian', expected one of backbone, classifier, dataset, ",
    ),
    ([f"--config={DEMO}", "--config.seed.x=3"], "config.seed is a field"),
    (
      [f"--config={DEMO}", "--config.head.beta=0.5"],
      "config has no field 'head.beta': it is pooling.beta now",
    ),
    (
      [f"--config={DEMO}", "--config.train.freeze=backbone"],
      "config has no field 'train.freeze': it is train.trainable (",
    ),
    (
      [f"--config={DEMO}", "--config.train.num_epochs=many"],
      "train.num_epochs is 'many', expected a whole number, from 0 to 1000000.",
    ),
    (
      [f"--config={DEMO}", "--config.train.batch_size=1e9"],
      "train.batch_size is '1e9', expected a whole number, 1 or more.",
    ),
    (
      [f"--config={DEMO}", "--config.optim.learning_rate=fast"],
      "optim.learning_rate is 'fast', expected a finite number, more than 0.",
    ),
    (
      [f"--config={DEMO}", "--config.backbone.remat=maybe"],
      "backbone.remat is 'maybe', expected True or False.",
    ),
    (
      [f"--config={DEMO}", "--config.optim=3"],
      "optim is '3', expected one of its fields to be set, optim.NAME.",
    ),
    (["--host=first"], "--host is 'first', expected a non-negative integer."),
    (["--num_hosts=0"], "--num_hosts is '0', expected a positive integer."),
    (["--verbosity=loud"], "--verbosity is 'loud', expected an integer."),
    (["--wrokdir=x"], "'wrokdir'. Did you mean: workdir"),
    ([f"--config={DEMO}", "--workdir=x", "more"], "got 'more' besides flags"),
  ],
)
def test_flags_that_cannot_be_used(args, message):
  assert message in error_of(*args)


def test_a_mistake_in_a_config_file_is_named_with_its_line(tmp_path):
  path = tmp_path / "broken.py"
  path.write_text("def get_config():\n  return 1 / 0\n")
  line = error_of(f"--config={path}", f"--workdir={tmp_path / 'run'}")
  assert line == f"error: {path}, line 2: ZeroDivisionError: division by zero"
  assert not (tmp_path / "run").exists()


def test_verbosity_adds_the_traceback_of_a_config_file(tmp_path):
  path = tmp_path / "broken.py"
  path.write_text("def get_config():\n  return 1 / 0\n")
  done = run(f"--config={path}", f"--workdir={tmp_path / 'run'}", "--verbosity=1")
  *lines, last = done.stderr.splitlines()
  assert "Traceback (most recent call last):" in lines
  assert last == f"error: {path}, line 2: ZeroDivisionError: division by zero"


@pytest.fixture
def misfit(tmp_path):
  path = tmp_path / "misfit.npz"
  np.savez(path, **{"features.0.weight": np.zeros((64, 3, 5, 5), np.float32)})
  return path


@pytest.mark.parametrize(
  ("args", "message"),
  [
    (["--config.dataset.name=fmd"], "does not exist; prepare it with `python -m"),
    pytest.param(
      [
        "--config.backbone.name=alexnet",
        "--config.backbone.batch_statistics=False",
        "--config.backbone.weights={misfit}",
        "--config.backbone.recipe=alexnet_torchvision",
      ],
      "features.0.weight: float32[64, 3, 5, 5], expected floating [64, 3, 11, 11]",
      marks=pytest.mark.slow,
    ),
    pytest.param(
      ["--workdir={misfit}/run"],
      "misfit.npz/run cannot be written to",
      marks=pytest.mark.slow,
    ),
    pytest.param(
      ["--config.dataset.num_classes=7"],
      "num_classes is 7, but folder has 3 classes",
      marks=pytest.mark.slow,
    ),
  ],
  ids=["dataset", "weights", "workdir", "classes"],
)
def test_mistakes_are_reported_before_anything_is_compiled(
  args, message, misfit, data_dir, tmp_path
):
  line = error_of(
    f"--config={DEMO}",
    "--config.dataset.name=folder",
    "--config.dataset.num_classes=3",
    f"--config.dataset.data_dir={data_dir}",
    f"--workdir={tmp_path / 'run'}",
    *(arg.format(misfit=misfit) for arg in args),
    **runs.caching(tmp_path / "compiled"),
  )
  assert message in line
  assert not (tmp_path / "run").exists()
  compiled = tmp_path / "compiled"
  assert not compiled.exists() or not list(compiled.iterdir())
