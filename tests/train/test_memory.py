import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import config as config_lib
from pnjax import runtime
from pnjax import train
from pnjax.train import _loop
from pnjax.train import _memory
from tests import small_runs


@pytest.mark.parametrize("num_devices", [1, 2])
@pytest.mark.parametrize(
  ("batch_size", "num_microbatches"), [(8, 1), (7, 2)], ids=["whole", "padded"]
)
def test_the_program_that_is_checked_is_the_one_that_runs(
  config, num_devices, batch_size, num_microbatches
):
  config.train.batch_size = batch_size
  config.train.num_microbatches = num_microbatches
  devices = runtime.Devices(jax.devices()[:num_devices])
  inputs = train.open_experiment(config, devices).inputs(None)[0]
  lowered = []

  def step(state, batch, psum):
    lowered.append(jax.tree.map(jnp.shape, batch))
    return state + psum(jnp.sum(batch["label"])), {}

  parallel = devices.parallelize(step, donate=False)
  state = devices.replicate(np.int32(0))
  _memory.check_step(parallel, state, inputs)
  batch = next(iter(inputs.train_batches()))
  parallel(state, devices.shard(batch, num_microbatches))
  assert len(lowered) == 1


def test_a_step_that_does_not_fit_is_refused_before_a_batch_is_read(
  config, tmp_path, monkeypatch
):
  monkeypatch.setattr(_memory, "_available", lambda: 10**6)
  monkeypatch.setattr(_loop, "_take_step", None)
  with pytest.raises(
    ValueError, match=r"step takes .* on each device, which has 0\.001"
  ):
    small_runs.run(config, tmp_path)


@pytest.mark.parametrize("hosts", [1, 4])
def test_a_batch_whose_images_do_not_fit_is_refused(hosts, monkeypatch):
  monkeypatch.setattr(_memory, "_available", lambda: 10**10)
  config = config_lib.get_config()
  config.train.batch_size = 10**6
  largest = 10**10 // (224 * 224 * 3 * 5) * hosts * jax.local_device_count()
  with pytest.raises(ValueError, match="batch_size is 1000000: images") as error:
    train.check_config(config, hosts)
  advised = int(str(error.value).split()[-1].rstrip("."))
  assert largest * 0.99 <= advised <= largest + hosts * jax.local_device_count()


def test_images_that_do_not_fit_are_refused():
  config = config_lib.get_config()
  config.dataset.image_size = 10**7
  with pytest.raises(ValueError, match=r"10000000 take .*; expected smaller images\."):
    train.check_config(config, 1)


def test_cached_features_take_no_images(alexnet_weights):
  config = config_lib.get_config()
  config.backbone.name = "alexnet"
  config.backbone.weights = str(alexnet_weights)
  config.train.batch_size = 10**9
  config.train.trainable, config.train.cache_features = "none", True
  train.check_config(config, 1)
