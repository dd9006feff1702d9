import json
import shutil

import jax
import numpy as np
import pytest
from safetensors import numpy as safetensors_numpy

from pnjax import data
from pnjax import ops
from pnjax import pretrained
from pnjax import probe
from pnjax import runs
from pnjax import train
from tests.small_runs import run


@pytest.fixture
def cached_config(frozen_config):
  """A run from three cached views, of which the last two convolutions are trained."""
  frozen_config.train.trainable = "last_two_convs"
  frozen_config.train.cache_features = True
  frozen_config.train.cached_views = 3
  frozen_config.train.num_epochs = 1
  return frozen_config


def test_the_classifier_is_ridge_regression_on_pooled_vectors(finished_run, data_dir):
  result = runs.read_result(finished_run)
  trained = runs.load(finished_run, "softmax")
  vectors, labels = {}, {}
  for name in ("train", "test"):
    split = data.open_split("folder", name, data_dir)
    images = [data.decode(split[i]["image"]) for i in range(len(split))]
    vectors[name] = np.asarray(ops.l2_normalize(trained.pooled(images)))
    labels[name] = split.labels
  train_vectors, test_vectors = vectors["train"], vectors["test"]
  ridge = probe.fit_ridge(train_vectors @ train_vectors.T, labels["train"], 3)
  assert result["refit"]["regularization"] == ridge.regularization
  assert result["refit"]["left_out_top1"] == ridge.left_out_top1
  assert result["refit"]["num_vectors"] == 24
  scores = ridge.scores(test_vectors @ train_vectors.T)
  _, predictions = runs.read_predictions(finished_run, "refit")
  np.testing.assert_array_equal(predictions, np.argmax(scores, axis=1))
  assert result["refit"]["top1"] == np.mean(predictions == labels["test"])
  refit = runs.read_refit(finished_run, trained.variables)
  np.testing.assert_allclose(refit(test_vectors), scores, rtol=1e-3, atol=1e-3)


def test_a_run_loads_with_either_classifier(finished_run, rng):
  images = rng.integers(0, 255, (2, 32, 32, 3), dtype=np.uint8)
  softmax, refit = (runs.load(finished_run, name) for name in runs.CLASSIFIERS[::-1])
  assert (softmax.classifier, refit.classifier) == ("softmax", "refit")
  assert runs.load(finished_run).classifier == "refit"
  classifier = runs.read_refit(finished_run, softmax.variables)
  logits = classifier(ops.l2_normalize(softmax.pooled(images)))
  expected = np.exp(logits) / np.sum(np.exp(logits), axis=1, keepdims=True)
  np.testing.assert_allclose(refit.predict(images), expected, rtol=1e-4)
  assert np.abs(softmax.predict(images) - expected).max() > 1e-3


def test_refitting_a_finished_run_repeats_its_result(cached_config, tmp_path):
  workdir, cache = tmp_path / "run", tmp_path / "cache"
  result = train.train_and_evaluate(cached_config, workdir, cache=cache)
  assert result["refit"]["num_vectors"] == 3 * 24
  first = safetensors_numpy.load_file(workdir / "refit.safetensors")
  assert train.refit_run(workdir, cache=cache) == result
  second = safetensors_numpy.load_file(workdir / "refit.safetensors")
  jax.tree.map(np.testing.assert_array_equal, first, second)


def test_a_run_without_one_can_be_refit_later(config, finished_run, tmp_path):
  config.classifier.refit = False
  assert "refit" not in run(config, tmp_path)
  assert runs.load(tmp_path).classifier == "softmax"
  with pytest.raises(FileNotFoundError, match=r"experiments\.refit --workdir="):
    runs.load(tmp_path, "refit")
  expected = runs.read_result(finished_run)["refit"]
  assert train.refit_run(tmp_path)["refit"] == expected
  assert runs.load(tmp_path).classifier == "refit"


def test_no_epochs_leave_the_features_as_they_are(cached_config, tmp_path):
  cached_config.train.num_epochs = 0
  result = train.train_and_evaluate(cached_config, tmp_path, cache=tmp_path / "cache")
  assert result["num_steps"] == 0
  assert result["refit"]["top1"] > 0.5
  trained = runs.load(tmp_path)
  pretrained_backbone = pretrained.backbone_from_config(cached_config.backbone)
  jax.tree.map(
    np.testing.assert_array_equal,
    trained.variables["params"]["backbone"],
    pretrained_backbone.variables["params"],
  )


def test_the_default_classifier_comes_from_the_config(config, tmp_path):
  config.classifier.default = "softmax"
  run(config, tmp_path)
  assert runs.load(tmp_path).classifier == "softmax"
  with pytest.raises(ValueError, match="the classifier is 'ridge', expected one of"):
    runs.load(tmp_path, "ridge")


def _copy(workdir, tmp_path):
  return shutil.copytree(workdir, tmp_path / "copy")


def test_damage_is_noticed(finished_run, tmp_path):
  workdir = _copy(finished_run, tmp_path)
  path = workdir / "refit.safetensors"
  whole = path.read_bytes()
  path.write_bytes(whole[:-4] + b"\0\0\0\0")
  with pytest.raises(ValueError, match="is damaged: its numbers have changed; `python"):
    runs.load(workdir)
  path.write_bytes(whole[:100])
  with pytest.raises(ValueError, match="is damaged"):
    runs.load(workdir)
  assert runs.load(workdir, "softmax").classifier == "softmax"


def test_a_classifier_of_another_network_is_refused(config, finished_run, tmp_path):
  config.seed = 1
  run(config, tmp_path)
  shutil.copy(finished_run / "refit.safetensors", tmp_path)
  with pytest.raises(ValueError, match="belongs to another network than the run has"):
    runs.load(tmp_path)


def test_damaged_or_other_features_are_refused(cached_config, tmp_path):
  workdir, cache = tmp_path / "run", tmp_path / "cache"
  train.train_and_evaluate(cached_config, workdir, cache=cache)
  for maps in cache.glob("*/maps"):
    maps.write_bytes(b"\xff" * maps.stat().st_size)
  with pytest.raises(OSError, match="is damaged"):
    train.refit_run(workdir, cache=cache)
  fingerprints = workdir / "fingerprints.json"
  stored = json.loads(fingerprints.read_text())
  fingerprints.write_text(json.dumps({**stored, "train": "of other images"}))
  with pytest.raises(ValueError, match="holds a run on other images"):
    train.refit_run(workdir, cache=cache)


def test_only_finished_runs_are_refit(finished_run, tmp_path):
  workdir = _copy(finished_run, tmp_path)
  (workdir / "result.json").unlink()
  with pytest.raises(FileNotFoundError, match="is not finished"):
    train.refit_run(workdir)
  with pytest.raises(FileNotFoundError, match="holds no run"):
    train.refit_run(tmp_path)
