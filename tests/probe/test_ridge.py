import numpy as np
import pytest
from scipy import special
from sklearn import linear_model

from pnjax import probe
from pnjax.probe import _ridge

NUM_CLASSES = 4


@pytest.fixture
def problem(rng):
  """Vectors of four classes, 60 to train on and 40 others."""
  labels = np.arange(100) % NUM_CLASSES
  x = rng.standard_normal((100, 30)) + 0.7 * rng.standard_normal((4, 30))[labels]
  return x[:60], labels[:60], x[60:], labels[60:]


def make_targets(labels):
  return np.where(np.arange(NUM_CLASSES) == labels[:, None], 1.0, -1.0)


def mean_square(x):
  return np.mean(np.sum(np.square(x - x.mean(axis=0)), axis=1))


def left_out_scores(x, labels, alpha, num_views=1):
  """Scores of each image by a regression without any of its views."""
  targets = make_targets(labels)
  num_images = len(x) // num_views
  scores = np.empty_like(targets)
  for image in range(num_images):
    own = np.arange(len(x)) % num_images == image
    model = linear_model.Ridge(alpha=alpha).fit(x[~own], targets[~own])
    scores[own] = model.predict(x[own])
  return scores


def test_equals_ridge_regression_in_the_primal(problem):
  x, labels, x_test, _ = problem
  fitted = probe.fit_ridge(x @ x.T, labels, NUM_CLASSES)
  assert fitted.diagonal == pytest.approx(mean_square(x))
  primal = linear_model.Ridge(alpha=fitted.regularization * fitted.diagonal)
  primal.fit(x, make_targets(labels))
  np.testing.assert_allclose(
    fitted.scores(x_test @ x.T),
    fitted.scale * primal.predict(x_test),
    rtol=1e-6,
    atol=1e-8,
  )


# Views are noisy copies of their image, so that leaving out only one would be easy.
@pytest.mark.parametrize("num_views", [1, 3])
def test_leave_one_out_is_exact(problem, rng, num_views):
  x, labels, _, _ = problem
  x = np.concatenate([x + 0.1 * rng.standard_normal(x.shape) for _ in range(num_views)])
  labels = np.tile(labels, num_views)
  fitted = probe.fit_ridge(x @ x.T, labels, NUM_CLASSES, num_views)

  def scores(regularization):
    return left_out_scores(x, labels, regularization * mean_square(x), num_views)

  def loss(logits):
    log_probabilities = special.log_softmax(logits, axis=1)
    return -np.mean(log_probabilities[np.arange(len(labels)), labels])

  left_out = scores(fitted.regularization)
  top1 = np.mean(np.argmax(left_out, axis=1) == labels)
  assert fitted.left_out_top1 == pytest.approx(top1)
  # Scores are logits that fit the left-out labels best, of all factors ...
  best = loss(fitted.scale * left_out)
  assert best < min(loss(factor * fitted.scale * left_out) for factor in (0.9, 1.1))
  # ... and regularisations.
  for regularization in _ridge.REGULARIZATIONS[::4]:
    others = scores(regularization)
    assert best <= min(loss(factor * others) for factor in np.geomspace(0.3, 30, 20))


def test_classifies_other_examples(problem):
  x, labels, x_test, labels_test = problem
  fitted = probe.fit_ridge((x @ x.T).astype(np.float32), labels, NUM_CLASSES)
  assert np.mean(fitted.predict(x_test @ x.T) == labels_test) > 0.6


def test_equal_vectors_do_not_break_it():
  labels = np.array([0, 1, 0, 1])
  assert np.isfinite(
    probe.fit_ridge(np.ones((4, 4)), labels, 2).scores(np.ones((3, 4)))
  ).all()


@pytest.mark.parametrize(
  ("kernel", "labels", "num_views", "match"),
  [
    (np.ones((3, 4)), [0, 1, 0], 1, r"shape \(3, 4\), expected \(3, 3\) for 3 labels"),
    (np.ones((0, 0)), [], 1, r"shape \(0, 0\)"),
    (np.full((2, 2), np.nan), [0, 1], 1, "entries that are not finite"),
    (np.ones((2, 2)), [0, 2], 1, "`labels` are from 0 to 2, expected 0 to 1"),
    (np.ones((2, 2)), [-1, 1], 1, "`labels` are from -1 to 1"),
    (np.ones((3, 3)), [0, 1, 0], 2, "`num_views` is 2, expected a divisor of the 3"),
  ],
)
def test_what_cannot_be_fit_is_refused(kernel, labels, num_views, match):
  with pytest.raises(ValueError, match=match):
    probe.fit_ridge(kernel, np.array(labels), 2, num_views)
