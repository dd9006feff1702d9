import jax
import numpy as np
import pytest

from pnjax import models
from pnjax import pretrained
from tests.train import runs


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory):
  """A prepared folder of small pictures in three classes."""
  return runs.prepare(tmp_path_factory.mktemp("data"))


@pytest.fixture
def config(data_dir):
  return runs.make_config(data_dir)


@pytest.fixture(scope="session", autouse=True)
def compilation_cache(tmp_path_factory):
  """Compiles each step once, however many runs take it."""
  settings = {
    "jax_compilation_cache_dir": str(tmp_path_factory.mktemp("compiled")),
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
  }
  before = {name: getattr(jax.config, name) for name in settings}
  for name, value in settings.items():
    jax.config.update(name, value)
  yield settings["jax_compilation_cache_dir"]
  for name, value in before.items():
    jax.config.update(name, value)


@pytest.fixture
def frozen_config(config, tmp_path):
  """The same with random weights of AlexNet, frozen."""
  model = models.AlexNet()
  variables = model.init(jax.random.key(0), np.zeros((1, 64, 64, 3), np.float32))
  name = "alexnet_torchvision"
  loaded = pretrained.Pretrained(name, pretrained.RECIPES[name], model, variables)
  path = tmp_path / "alexnet.safetensors"
  pretrained.save(path, loaded)
  config.backbone.name = "alexnet"
  config.backbone.weights = str(path)
  config.dataset.image_size = 64
  config.dataset.augment = "none"
  config.train.freeze = "backbone"
  return config
