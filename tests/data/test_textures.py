"""The synthetic images have the properties that they promise."""

import hashlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn import linear_model
from sklearn import pipeline
from sklearn import preprocessing

from pnjax import data
from pnjax import ops
from pnjax.data import _prepare
from pnjax.data import _textures
from pnjax.data._decode import decode_prepared

CELLS = 8


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory):
  """A folder of datasets with textures of an earlier version."""
  folder = tmp_path_factory.mktemp("textures")
  current = _prepare.prepared_folder("textures", folder)
  current.with_name("1.0.0").mkdir(parents=True)
  return folder


def test_textures_are_prepared_when_first_opened(data_dir):
  split = data.open_split("textures", "test", data_dir)
  assert len(split) == 512
  assert split.class_names == _textures.CLASS_NAMES
  assert np.bincount(split.labels).tolist() == [64] * 8
  assert data.decode(split[0]["image"]).shape == (64, 64, 3)
  again = data.open_split("textures", "test", data_dir)
  assert again.fingerprint == split.fingerprint


def test_an_image_depends_on_split_and_index_only():
  image = _textures.Texture("train", 5)
  assert image.read() == _textures.archive().stored["train"][5].read()
  assert image.read() != _textures.Texture("test", 5).read()
  assert image.read() != _textures.Texture("train", 13).read()


def test_images_change_with_the_version():
  """If you change the images, raise `VERSION` and update this test."""
  digest = hashlib.sha256()
  for label in range(8):
    rng = np.random.default_rng(label)
    digest.update(_textures._draw(_textures._cells(label, rng), rng).tobytes())
  drawn = (_textures.VERSION, digest.hexdigest()[:16])
  assert drawn == ("1.1.0", "a69c467ded0aa9f4")


def test_patterns_are_equally_frequent_in_all_classes():
  counts = np.zeros((8, 2, 4))
  for index in range(4000):
    label, rng = index % 8, np.random.default_rng(index)
    cells = _textures._cells(label, rng)
    for kind in range(2):
      used = cells[cells[:, kind] >= 0, kind]
      counts[label, kind] += np.bincount(used, minlength=4)
  np.testing.assert_allclose(counts / counts.mean(), 1, atol=0.15)


def features(images):
  """Responses of four pattern and four colour detectors per cell, `[B, 64, 8]`."""
  x = images.astype(np.float32) / 255
  size = x.shape[1] // CELLS
  x = x.reshape(-1, CELLS, size, CELLS, size, 3).transpose(0, 1, 3, 2, 4, 5)
  x = x.reshape(len(images), CELLS * CELLS, size * size, 3)
  lying, upright, both = (energy(x.mean(-1), *f) for f in ((1, 0), (0, 1), (1, 1)))
  patterns = [
    np.maximum(lying - upright - both, 0),
    np.maximum(upright - lying - both, 0),
    np.maximum(both - lying - upright, 0),
    np.minimum(np.minimum(lying, upright), both),
  ]
  colours = np.maximum(chroma(x.mean(2)) @ unit(chroma(_textures._COLOURS)).T - 0.03, 0)
  patterns = np.stack(patterns, axis=-1)
  return np.concatenate([patterns / patterns.std(), colours / colours.std()], axis=-1)


def energy(grey, y_frequency, x_frequency):
  """Amplitude of a wave of four pixels, at any phase."""
  y, x = np.indices((8, 8)) * np.pi / 2
  waves = [
    fy(y_frequency * y) * fx(x_frequency * x)
    for fy in (np.cos, np.sin)
    for fx in (np.cos, np.sin)
  ]
  return np.sqrt(sum((grey @ wave.ravel() / 64) ** 2 for wave in waves))


def chroma(rgb):
  return rgb - rgb.mean(-1, keepdims=True)


def unit(x):
  return x / np.linalg.norm(x, axis=-1, keepdims=True)


def accuracy(phi, labels, pool):
  """Test accuracy of a linear classifier on pooled features."""
  classifier = pipeline.make_pipeline(
    preprocessing.StandardScaler(),
    linear_model.RidgeClassifier(alpha=10.0),
  )
  pooled = {split: np.asarray(jax.jit(pool)(phi[split])) for split in phi}
  classifier.fit(pooled["train"], labels["train"])
  return classifier.score(pooled["test"], labels["test"])


def test_textures_show_what_the_paper_claims(data_dir):
  """Means < co-occurrences < with coordinates < with Power Normalization."""
  phi, labels = {}, {}
  for name, images in (("train", "train[:512]"), ("test", "test")):
    split = data.open_split("textures", images, data_dir)
    pixels = np.stack([decode_prepared(example["image"]) for example in split])
    phi[name] = jnp.asarray(features(pixels), jnp.float32)
    labels[name] = split.labels
  coordinates = ops.spatial_coordinates(CELLS, CELLS, 5, 0.3, 1.0)

  def sop(phi):
    return ops.triu_vectorize(ops.cooccurrence(phi))

  def sop_sigme(phi):
    return ops.triu_vectorize(ops.sigme_pool(phi, 300.0))

  def with_coordinates(pool):
    return lambda phi: pool(ops.append_coordinates(phi, coordinates))

  pools = {
    "fop": lambda phi: jnp.mean(phi, axis=1),
    "sop": sop,
    "sop_sigme": sop_sigme,
    "sop_sc": with_coordinates(sop),
    "sop_sc_sigme": with_coordinates(sop_sigme),
  }
  top1 = {name: accuracy(phi, labels, pool) for name, pool in pools.items()}
  assert top1["fop"] < 0.3  # Chance is an eighth.
  assert top1["fop"] + 0.15 < top1["sop"] < top1["sop_sigme"]
  assert top1["sop_sigme"] < 0.6  # Without locations, two classes remain.
  assert top1["sop_sigme"] + 0.2 < top1["sop_sc"] < top1["sop_sc_sigme"] - 0.05
  assert top1["sop_sc_sigme"] > 0.92
