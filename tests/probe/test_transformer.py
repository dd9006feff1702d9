"""`PooledFeatures` alone, and in scikit-learn's pipelines and searches."""

import numpy as np
import pytest
from sklearn import base
from sklearn import model_selection
from sklearn import pipeline
from sklearn import svm

from pnjax import models
from pnjax import ops
from pnjax.probe import PooledFeatures


@pytest.fixture
def feature_maps(rng):
  """Two classes with the same means: pairs of channels fire together, or apart."""
  first = rng.integers(0, 2, size=(40, 5, 5, 1))
  labels = np.repeat([0, 1], 20)
  second = np.where(labels[:, None, None, None] == 1, first, 1 - first)
  noise = 0.3 * rng.normal(size=(40, 5, 5, 4))
  signal = np.concatenate([first, second, first * 0, second * 0], axis=-1)
  return (signal + noise).astype(np.float32), labels


def test_vectors_are_those_of_the_pooling_layer(rng):
  x = rng.normal(size=(11, 3, 4, 5)).astype(np.float32)
  layer = models.SecondOrderPooling(
    power_norm="sigme", eta_prime=50.0, beta=0.3, num_pivots=3, alpha=2.0
  )
  transformer = PooledFeatures("sigme", 50.0, beta=0.3, num_pivots=3, alpha=2.0)
  expected = layer.apply({}, x)
  got = transformer.set_params(normalize=False).fit_transform(x)
  np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)
  unit = transformer.set_params(normalize=True).fit_transform(x)
  np.testing.assert_allclose(unit, ops.l2_normalize(expected), rtol=1e-5, atol=1e-6)


def test_fit_suggests_what_is_missing(rng):
  x = rng.normal(size=(5, 4, 4, 6)).astype(np.float32)
  pooling = PooledFeatures(num_pivots=2).fit(x).pooling_
  phi = np.maximum(x, 0).reshape(5, 16, 6)
  expected = ops.suggest_parameters(phi)
  np.testing.assert_allclose(pooling.eta_prime, expected["eta_prime"], rtol=1e-5)
  np.testing.assert_allclose(pooling.alpha, expected["alpha"], rtol=1e-5)


@pytest.mark.parametrize("shape", [(6, 9, 5), (6, 2, 3, 3, 5)])
def test_tokens_and_patches(rng, shape):
  x = rng.normal(size=shape)
  assert PooledFeatures(spectral=True).fit_transform(x).shape == (6, 15)


def test_pipeline(feature_maps):
  classifier = pipeline.make_pipeline(PooledFeatures(), svm.LinearSVC())
  scores = model_selection.cross_val_score(classifier, *feature_maps, cv=4)
  assert scores.mean() > 0.9
  search = model_selection.GridSearchCV(
    classifier, {"pooledfeatures__parameter": [1.0, 10.0]}, cv=2
  ).fit(*feature_maps)
  assert search.best_estimator_[0].pooling_.eta_prime in (1.0, 10.0)


def test_clones_are_not_fitted(feature_maps):
  fitted = PooledFeatures("asinhe", beta=0.2).fit(feature_maps[0])
  clone = base.clone(fitted)
  assert clone.get_params() == fitted.get_params()
  with pytest.raises(ValueError, match="before `fit`"):
    clone.transform(feature_maps[0])
  assert "beta=0.2" in repr(clone)


@pytest.mark.parametrize(
  ("call", "error", "match"),
  [
    (lambda x: PooledFeatures().fit(x[0, 0]), ValueError, r"\(5, 4\)"),
    (lambda x: PooledFeatures().fit(x[:0]), ValueError, r"\(0, 5, 5, 4\)"),
    (lambda x: PooledFeatures().fit(x.astype(int)), TypeError, "int64"),
    (lambda x: PooledFeatures().fit(x).transform(x[:, 1:]), ValueError, "as in `fit`"),
    (lambda x: PooledFeatures().fit(x * np.nan), ValueError, "NaN"),
    (lambda x: PooledFeatures().fit(x).transform(x + np.inf), ValueError, "NaN"),
    (lambda x: PooledFeatures("sigmoid").fit(x), ValueError, "sigmoid"),
    (lambda x: PooledFeatures(None, 3.0).fit(x), ValueError, "has none"),
    (lambda x: PooledFeatures("maxexp", beta=0.5).fit(x), ValueError, "beta"),
    (lambda x: PooledFeatures().set_params(eta=1), ValueError, "'eta'"),
  ],
)
def test_mistakes(feature_maps, call, error, match):
  with pytest.raises(error, match=match):
    call(feature_maps[0])
