import json

import jax
import numpy as np
import pytest

from pnjax import data
from pnjax import features
from pnjax import pretrained
from pnjax import runtime
from pnjax.features import _extract


@pytest.fixture
def backbone(frozen_config):
  return pretrained.backbone_from_config(frozen_config.backbone)


@pytest.fixture
def split(frozen_config):
  dataset = frozen_config.dataset
  return data.open_split(dataset.name, "test", dataset.data_dir)


def extract(config, backbone, split, root, stage=None):
  devices = runtime.Devices(jax.devices()[:1])
  (maps,) = features.cached_feature_maps(
    config, backbone, [split], devices, root, stage
  )
  return maps


def test_the_cache_has_the_feature_maps(frozen_config, backbone, split, tmp_path):
  cached = extract(frozen_config, backbone, split, tmp_path)
  expected = features.feature_maps(frozen_config, backbone, split)
  assert expected.shape == (15, 1, 1, 256)
  np.testing.assert_allclose(cached[:], expected, rtol=2e-3, atol=1e-3)


def test_crops_have_their_own_axis(frozen_config, backbone, split, tmp_path):
  frozen_config.dataset.num_crops = 12
  cached = extract(frozen_config, backbone, split.subset([3, 1]), tmp_path, "conv3")
  assert cached[:].shape == (2, 12, 3, 3, 384)


def test_only_missing_feature_maps_are_computed(
  frozen_config, backbone, split, tmp_path, monkeypatch
):
  extract(frozen_config, backbone, split.subset([0, 1]), tmp_path)
  seen = []
  compute = _extract._extract_batches

  def watched(config, variables, extract, split, *args):
    seen.append(len(split))
    return compute(config, variables, extract, split, *args)

  monkeypatch.setattr(_extract, "_extract_batches", watched)
  extract(frozen_config, backbone, split.subset([0, 1, 2, 2]), tmp_path)
  extract(frozen_config, backbone, split.subset([2, 0]), tmp_path)
  assert seen == [1]


def test_the_key_of_a_cache_is_made_of_these_fields(
  frozen_config, backbone, split, tmp_path
):
  # Another key would discard every cache that users have.
  extract(frozen_config, backbone, split.subset([0]), tmp_path, "conv3")
  (path,) = tmp_path.glob("*/identity.json")
  assert json.loads(path.read_text()) == {
    "weights": backbone.fingerprint,
    "architecture": "alexnet",
    "variant": None,
    "epsilon": None,
    "dtype": "float32",
    "channels": "RGB",
    "divisor": 255.0,
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
    "stage": "conv3",
    "image_size": 64,
    "resize": "squash",
    "num_crops": 1,
    "resize_side": None,
    "shape": [3, 3, 384],
  }


def test_random_weights_are_not_cached(config, split, tmp_path):
  config.backbone.weights = None
  backbone = pretrained.untrained_backbone(config.backbone)
  with pytest.raises(ValueError, match=r"backbone\.weights is None"):
    extract(config, backbone, split, tmp_path)


def test_views_have_their_own_caches(frozen_config, backbone, split, tmp_path, capsys):
  devices = runtime.Devices(jax.devices()[:1])

  def extract_views(views):
    return features.cached_feature_maps(
      frozen_config, backbone, [split] * len(views), devices, tmp_path, None, views
    )

  plain, first, second = extract_views([0, 1, 2])
  # Printed before anything is computed.
  printed = capsys.readouterr().out
  assert "features: 45 feature maps to compute in 3 views, " in printed
  assert f" GB in {tmp_path}" in printed
  assert len(list(tmp_path.glob("*/identity.json"))) == 3
  assert not np.array_equal(plain[:], first[:])
  assert not np.array_equal(first[:], second[:])
  (again,) = extract_views([1])
  np.testing.assert_array_equal(again[:], first[:])
  assert capsys.readouterr().out == ""
  frozen_config.seed = 1
  (other,) = extract_views([1])
  assert not np.array_equal(other[:], first[:])


def test_hosts_that_do_not_share_a_cache_are_refused(
  frozen_config, backbone, split, tmp_path, monkeypatch
):
  # Another host misses other images.
  monkeypatch.setattr(
    runtime.Devices, "gather", lambda _, x: np.concatenate([x, x + np.ones_like(x)])
  )
  with pytest.raises(ValueError, match="the hosts find different feature maps in"):
    extract(frozen_config, backbone, split, tmp_path)
