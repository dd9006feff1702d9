import jax
import numpy as np
from PIL import Image
import pytest

from experiments.configs import default
from experiments.configs import methods
from pnjax import data
from pnjax import models
from pnjax import pretrained

CLASSES = ("dark", "light", "striped")
NUM_TRAIN, NUM_TEST = 8, 5  # Of each class.


@pytest.fixture(scope="session")
def data_dir(tmp_path_factory):
  """A prepared folder of small pictures in three classes."""
  source = tmp_path_factory.mktemp("pictures")
  rng = np.random.default_rng(0)
  for split, count in (("train", NUM_TRAIN), ("test", NUM_TEST)):
    for name in CLASSES:
      folder = source / split / name
      folder.mkdir(parents=True)
      for i in range(count):
        Image.fromarray(_picture(name, rng)).save(folder / f"{i}.png")
  data_dir = tmp_path_factory.mktemp("data")
  data.prepare("folder", source, data_dir)
  return data_dir


def _picture(name, rng):
  picture = rng.integers(0, 100, (32, 32, 3))
  if name == "light":
    picture += 100
  if name == "striped":
    picture[::4] += 120
  return picture.astype(np.uint8)


@pytest.fixture
def config(data_dir):
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
