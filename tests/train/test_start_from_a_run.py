import shutil

import jax
import numpy as np
import pytest

from experiments.configs import methods
from experiments.studies import comparison
from experiments.studies import rows
import pnjax
from pnjax import pretrained
from pnjax import runs
from pnjax import runtime
from tests import small_runs


@pytest.fixture
def next_config(config, finished_run):
  """The config of a run that starts from a finished one and trains no epoch."""
  config.backbone.weights = str(finished_run)
  config.train.num_epochs = 0
  return config


def test_the_backbone_is_that_of_the_finished_run(next_config, finished_run, tmp_path):
  small_runs.run(next_config, tmp_path / "run")
  before, after = (pnjax.load(path) for path in (finished_run, tmp_path / "run"))
  assert before.variables["batch_stats"]["backbone"]
  for collection in ("params", "batch_stats"):
    trees = [x.variables[collection]["backbone"] for x in (before, after)]
    jax.tree.map(np.testing.assert_array_equal, *trees)
  assert after.backbone.preprocessing == before.backbone.preprocessing
  weights = runs.read_fingerprints(tmp_path / "run")["weights"]
  assert weights == pretrained.backbone_from_config(next_config.backbone).fingerprint


def test_features_of_a_run_are_cached(next_config, tmp_path):
  next_config.train.trainable, next_config.train.cache_features = "none", True
  next_config.dataset.augment = "none"
  cached = small_runs.run(next_config, tmp_path / "cached")
  next_config.train.cache_features = False
  assert small_runs.run(next_config, tmp_path / "run")["top1"] == cached["top1"]


def test_the_recipe_goes_from_run_to_run(frozen_config, tmp_path):
  frozen_config.train.num_epochs = 0
  small_runs.run(frozen_config, tmp_path / "first")
  frozen_config.backbone.weights = str(tmp_path / "first")
  small_runs.run(frozen_config, tmp_path / "second")
  assert runs.read_model_info(tmp_path / "second").recipe == "alexnet_torchvision"
  loaded = pretrained.load(tmp_path / "second")
  assert loaded.recipe == pretrained.RECIPES["alexnet_torchvision"]


def test_tables_depend_on_the_weights_of_the_run(next_config, finished_run):
  file = finished_run / "weights.safetensors"
  assert rows.weights_digest(next_config) == runtime.file_digest(file)


def test_an_export_is_a_source_of_weights(next_config, finished_run, tmp_path):
  expected = pretrained.backbone_from_config(next_config.backbone).fingerprint
  next_config.backbone.weights = str(runs.export(finished_run, tmp_path / "model"))
  actual = pretrained.backbone_from_config(next_config.backbone)
  assert actual.fingerprint == expected
  assert actual.recipe is None  # The first run started at random.


def test_mistakes(next_config, finished_run, tmp_path):
  workdir = shutil.copytree(finished_run, tmp_path / "run")
  next_config.backbone.weights = str(workdir)
  file = workdir / "weights.safetensors"
  content = bytearray(file.read_bytes())
  content[-1] ^= 1
  file.write_bytes(content)
  with pytest.raises(ValueError, match="is damaged: its numbers have changed"):
    pretrained.backbone_from_config(next_config.backbone)
  file.unlink()
  with pytest.raises(FileNotFoundError, match=r"no weights.safetensors, .*finishes it"):
    pretrained.backbone_from_config(next_config.backbone)
  next_config.backbone.weights = str(finished_run)
  next_config.backbone.recipe = "resnet50_torchvision"
  with pytest.raises(ValueError, match="'resnet50_torchvision', expected 'custom'"):
    pretrained.backbone_from_config(next_config.backbone)
  next_config.backbone.recipe = None
  next_config.backbone.name = "resnet50"
  with pytest.raises(ValueError, match="are weights of tiny_resnet, but backbone"):
    pretrained.backbone_from_config(next_config.backbone)


def test_a_table_on_the_features_of_a_run(next_config, finished_run, tmp_path):
  def config_of(method):
    own = next_config.copy_and_resolve_references()
    own.pooling.eta_prime = own.pooling.alpha = None
    methods.apply(own, method)
    return own

  table = comparison.make_table(
    config_of, tmp_path / "table", rows=["fop"], cache=tmp_path / "cache"
  )
  (row,) = table["rows"]
  assert row["classifiers"]["frozen"]["top1"]["mean"] > 90  # As the run itself.
  assert any(f"with {finished_run}." in note for note in table["notes"])
