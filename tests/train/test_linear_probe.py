import jax
import numpy as np
import pytest

from pnjax import data
from pnjax import train
from pnjax.train import build
from pnjax.train import features
from pnjax.train import linear_probe
from pnjax.train import ridge
from pnjax.train.devices import Devices
from tests.train.runs import assert_same_run


@pytest.fixture
def ridge_config(frozen_config):
  """Starts from ridge regression, and hardly moves from there."""
  frozen_config.train.start = "ridge"
  frozen_config.optim.learning_rate = frozen_config.optim.final_learning_rate = 1e-12
  frozen_config.optim.head_multiplier = 1.0
  return frozen_config


def ridge_predictions(config, cache):
  """What ridge regression on the frozen features says of the test pictures."""
  backbone = build.backbone(config.backbone)
  splits = [
    data.open_split("folder", name, config.dataset.data_dir)
    for name in ("train", "test")
  ]
  maps = features.cached_maps(config, backbone, splits, Devices(jax.devices()), cache)
  model = build.classifier(config, backbone, 3, {})
  learned, others = (
    np.asarray(model.apply({}, m[:].astype(np.float32), method="pool")) for m in maps
  )
  fitted = ridge.fit(learned @ learned.T, splits[0].labels, 3)
  return fitted.predict(others @ learned.T)


@pytest.mark.parametrize(
  ("freeze", "cached"),
  [
    ("backbone", True),
    ("last_two_convs", True),  # From the maps of the third convolution.
    ("all", False),
  ],
)
def test_a_run_starts_where_ridge_regression_is(ridge_config, tmp_path, freeze, cached):
  config = ridge_config
  config.train.freeze, config.train.cache_features = freeze, cached
  cache = tmp_path / "cache"
  train.train_and_evaluate(
    config, tmp_path / "run", jax.devices()[:1], cache=str(cache)
  )
  predictions = np.load(tmp_path / "run" / "predictions.npz")["prediction"]
  np.testing.assert_array_equal(predictions, ridge_predictions(config, cache))


def test_a_run_that_continues_does_not_start_again(ridge_config, tmp_path, monkeypatch):
  config = ridge_config
  config.optim.learning_rate = config.optim.final_learning_rate = 1e-4
  config.train.cache_features = True

  def run(workdir):
    return train.train_and_evaluate(
      config, workdir, jax.devices()[:1], cache=str(tmp_path / "cache")
    )

  run(tmp_path / "whole")
  with monkeypatch.context() as patch:
    patch.setattr(train.loop.Run, "is_to_stop", lambda self, stop: self.step == 4)
    assert run(tmp_path / "stopped") is None
  monkeypatch.setattr(linear_probe, "fit", None)
  run(tmp_path / "stopped")
  assert_same_run(tmp_path / "stopped", tmp_path / "whole")


def test_random_weights_are_refused(config, tmp_path):
  config.train.start = "ridge"
  with pytest.raises(ValueError, match=r"backbone\.weights is None"):
    train.train_and_evaluate(config, tmp_path)


def test_unknown_start_is_refused(config, tmp_path):
  config.train.start = "random"
  with pytest.raises(ValueError, match=r"train\.start is 'random', expected"):
    train.train_and_evaluate(config, tmp_path)


def test_too_many_pictures_are_refused(ridge_config, tmp_path, monkeypatch):
  monkeypatch.setattr(train.kernel, "MAX_PICTURES", 23)
  with pytest.raises(ValueError, match="24 pictures, expected at most 23"):
    train.train_and_evaluate(ridge_config, tmp_path)
