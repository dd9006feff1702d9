import dataclasses
import json
import shutil
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import pnjax
from pnjax import ops
from pnjax import runs


@pytest.fixture(scope="module")
def trained(finished_run):
  return pnjax.load(finished_run)


@pytest.fixture
def images(rng):
  sizes = [(32, 32), (50, 40), (8, 90)]
  return [rng.integers(0, 256, (*size, 3), dtype=np.uint8) for size in sizes]


def test_probabilities_of_images_of_any_sizes(trained, images):
  together = trained.predict(images)
  assert together.shape == (3, len(trained.class_names))
  np.testing.assert_allclose(together.sum(axis=1), 1, rtol=1e-5)
  for image, row in zip(images, together, strict=True):
    np.testing.assert_allclose(trained.predict([image])[0], row, rtol=1e-4)


def test_more_images_than_a_batch_keep_their_order(trained, rng):
  images = rng.integers(0, 256, (11, 32, 32, 3), dtype=np.uint8)
  backwards = trained.predict(images[::-1])
  np.testing.assert_allclose(trained.predict(images)[::-1], backwards, rtol=1e-4)


def test_features_and_pooled_vectors_lead_to_the_probabilities(trained, images):
  features, pooled = trained.features(images), trained.pooled(images)
  vectors = trained.model.apply(trained.variables, features, method="pool")
  np.testing.assert_allclose(pooled, vectors, rtol=1e-4, atol=1e-6)
  np.testing.assert_allclose(ops.l2_normalize(pooled), pooled, rtol=1e-4)  # For refit.
  logits = trained.model.apply(trained.variables, pooled, method="classify")
  expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
  np.testing.assert_allclose(trained.predict(images), expected, rtol=1e-4)


def test_predictions_are_those_of_the_run(trained, finished_run, data_dir):
  from pnjax import data

  split = data.open_split("folder", "test", data_dir)
  images = [data.decode(split[i]["image"]) for i in range(len(split))]
  _, predictions = runs.read_predictions(finished_run, trained.classifier)
  np.testing.assert_array_equal(trained.predict(images).argmax(axis=1), predictions)


@pytest.mark.parametrize(
  "images,match",
  [
    ([], "no images"),
    (np.zeros((32, 32, 3), np.uint8), r"\(32, 32, 3\), .* a single image into a list"),
    (np.zeros((2, 32, 32), np.uint8), r"Image 0 is uint8 of shape \(32, 32\)"),
    ([np.zeros((32, 32, 3))], "Image 0 is float64"),
    (
      [np.zeros((32, 32), np.uint8)],
      r"of shape \(32, 32\), expected uint8 \[H, W, 3\]",
    ),
    ([np.zeros((0, 32, 3), np.uint8)], "expected uint8"),
    (["a.jpg"], "Image 0 is str"),
  ],
)
def test_bad_images(trained, images, match):
  with pytest.raises(ValueError, match=match):
    trained.predict(images)


@pytest.mark.parametrize(
  "images",
  [None, 3, {"a": 1}, (image for image in [np.zeros((4, 4, 3), np.uint8)])],
  ids=["None", "int", "dict", "generator"],
)
@pytest.mark.parametrize("method", ["predict", "features", "pooled"])
def test_images_that_are_no_list(trained, images, method):
  message = f"type {type(images).__name__}, expected a list of uint8 images"
  with pytest.raises(TypeError, match=message):
    getattr(trained, method)(images)


def test_images_as_arrays_of_jax(trained, images):
  expected = trained.predict(images[:1] * 2)
  np.testing.assert_array_equal(trained.predict(jnp.stack(images[:1] * 2)), expected)
  arrays = [jnp.asarray(image) for image in images[:1] * 2]
  np.testing.assert_array_equal(trained.predict(arrays), expected)


def test_weights_that_do_not_fit_the_config(trained, images):
  pooling = trained.model.pooling.clone(reduction=4)
  other = dataclasses.replace(trained, model=trained.model.clone(pooling=pooling))
  with pytest.raises(ValueError, match=r"do not fit the network that its config\.json"):
    other.predict(images)


@pytest.fixture
def workdir(finished_run, tmp_path):
  """A copy of a finished run, for a test to damage."""
  return shutil.copytree(finished_run, tmp_path / "run")


def test_a_damaged_checkpoint_is_not_read(workdir):
  path = workdir / "checkpoints/6/run/arrays.npz"
  content = bytearray(path.read_bytes())
  content[5000] ^= 1
  path.write_bytes(content)
  with pytest.raises(ValueError, match="last checkpoint of the run is damaged: ") as e:
    pnjax.load(workdir)
  message = str(e.value)
  assert f"{path} has changed since it was written" in message
  assert f"Remove {workdir}/result.json, if it is there, and the command" in message
  assert "\n" not in message


@pytest.mark.parametrize("folder", ["checkpoints", "checkpoints/3"])
def test_missing_checkpoints(workdir, folder):
  shutil.rmtree(workdir / "checkpoints/6")
  shutil.rmtree(workdir / folder)
  with pytest.raises(FileNotFoundError, match="checkpoints has no checkpoint; the"):
    pnjax.load(workdir)


def test_a_missing_class_of_an_unfinished_run(workdir):
  (workdir / "result.json").unlink()
  (workdir / "classes.txt").write_text("dark\nlight\n")
  with pytest.raises(ValueError, match="has 2 class names for the 3 outputs of its"):
    pnjax.load(workdir)


@pytest.mark.parametrize("name", ["config.json", "classes.txt", "model.json"])
def test_a_missing_file(workdir, name):
  (workdir / name).unlink()
  with pytest.raises(FileNotFoundError, match=f"has no {name}") as error:
    pnjax.load(workdir)
  assert "\n" not in str(error.value)


def test_a_refit_classifier_that_is_missing(workdir):
  (workdir / "refit.safetensors").unlink()
  with pytest.raises(FileNotFoundError, match="lacks the file of its refit classifier"):
    runs.load(workdir)
  assert runs.load(workdir, "softmax").classifier == "softmax"


def test_a_power_norm_that_is_not_there(workdir):
  fields = json.loads((workdir / "config.json").read_text())
  fields["pooling"] |= {"power_norm": "log1p", "eta_prime": None}
  (workdir / "config.json").write_text(json.dumps(fields))
  message = "is 'log1p', expected None or one of .* has to be added to `pnjax.ops.POWER"
  with pytest.raises(ValueError, match=message):
    pnjax.load(workdir)


def test_an_exported_model_is_no_run(tmp_path):
  fields = {"format": "pnjax exported model 1", "class_names": []}
  (tmp_path / "config.json").write_text(json.dumps(fields))
  with pytest.raises(ValueError, match="is an exported model, expected the folder of"):
    pnjax.load(tmp_path)


def test_importing_pnjax_imports_neither_flax_nor_orbax():
  code = "import sys, pnjax; print({'flax', 'orbax', 'grain'} & {*sys.modules})"
  out = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
  assert out.stdout.strip() == b"set()"


def test_a_model_is_shown_in_a_line(finished_run):
  text = repr(pnjax.load(finished_run))
  assert (
    text == "TrainedModel(tiny_resnet on folder, 3 classes, classifier refit, step 6)"
  )
