import subprocess
import sys

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
    (np.zeros((32, 32, 3), np.uint8), r"Image 0 is uint8 of shape \(32, 3\)"),
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


def test_importing_pnjax_imports_neither_flax_nor_orbax():
  code = "import sys, pnjax; print({'flax', 'orbax', 'grain'} & {*sys.modules})"
  out = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
  assert out.stdout.strip() == b"set()"
