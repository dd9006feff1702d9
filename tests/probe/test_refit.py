import numpy as np
import pytest
from sklearn import linear_model

from pnjax import probe
from pnjax.probe import _conjugate_gradients
from tests.probe.test_kernel import make_vectors

NUM_CLASSES = 3
NUM_IMAGES = 40


@pytest.fixture
def problem(rng):
  """Unit vectors of two views of each image, and their labels."""
  labels = np.arange(NUM_IMAGES) % NUM_CLASSES
  centers = 0.5 * rng.standard_normal((NUM_CLASSES, 50))
  images = rng.standard_normal((NUM_IMAGES, 50)) + centers[labels]
  x = np.concatenate([images, images + 0.3 * rng.standard_normal(images.shape)])
  x /= np.linalg.norm(x, axis=1, keepdims=True)
  return x.astype(np.float32), np.tile(labels, 2)


@pytest.mark.parametrize("memory", [None, 4 * 50 * 8], ids=["in memory", "in blocks"])
def test_weights_give_the_scores_of_the_kernel(problem, memory):
  x, labels = problem
  refit = probe.refit(make_vectors(x), labels, NUM_CLASSES, num_views=2, memory=memory)
  ridge = probe.fit_ridge(x @ x.T, labels, NUM_CLASSES, num_views=2)
  assert refit.classifier.kernel.shape == (50, NUM_CLASSES)
  np.testing.assert_allclose(
    refit.classifier(x), ridge.scores(x @ x.T), rtol=1e-4, atol=1e-4
  )
  assert refit.regularization == ridge.regularization
  assert refit.left_out_top1 == ridge.left_out_top1
  assert refit.num_vectors == 2 * NUM_IMAGES


def test_more_vectors_than_a_kernel_can_hold(problem, monkeypatch):
  x, labels = problem
  chosen = []
  solve = probe._refit._solve_kernel

  def solve_kernel(vectors, labels, *args):
    chosen.append((vectors.rows, labels))
    return solve(vectors, labels, *args)

  monkeypatch.setattr(probe._refit, "_solve_kernel", solve_kernel)
  refit = probe.refit(make_vectors(x), labels, NUM_CLASSES, num_views=2, max_rows=50)
  # All views of some images of every class choose the regularisation.
  ((rows, some_labels),) = chosen
  assert 30 < len(rows) <= 50
  np.testing.assert_array_equal(
    rows[: len(rows) // 2] + NUM_IMAGES, rows[len(rows) // 2 :]
  )
  assert set(some_labels) == set(range(NUM_CLASSES))
  # The rest is as exact as its tolerance.
  ridge = probe.fit_ridge(x[rows] @ x[rows].T, some_labels, NUM_CLASSES, num_views=2)
  primal = linear_model.Ridge(alpha=ridge.regularization * ridge.diagonal)
  primal.fit(x, np.where(np.arange(NUM_CLASSES) == labels[:, None], 1.0, -1.0))
  np.testing.assert_allclose(
    refit.classifier(x), ridge.scale * primal.predict(x), atol=0.01 * ridge.scale
  )
  assert refit.num_vectors == 2 * NUM_IMAGES


def test_conjugate_gradients_solve_ridge_regression(problem, rng):
  x, _ = problem
  targets = rng.standard_normal((len(x), 2))
  targets[:, 1] = 1  # Solved before it begins, and must stay finite.
  weights, offset = _conjugate_gradients.solve_ridge(
    make_vectors(x), targets, 0.01, np.zeros((50, 2)), 1e-6, max_iterations=300
  )
  primal = linear_model.Ridge(alpha=0.01).fit(x.astype(np.float64), targets)
  np.testing.assert_allclose(x @ weights + offset, primal.predict(x), atol=1e-3)


def test_conjugate_gradients_stop_after_their_iterations(problem, capsys):
  x, labels = problem
  passes = []
  vectors = make_vectors(x)
  counted = probe.PooledVectors(
    lambda rows: passes.append(len(rows)) or vectors.pool(rows), vectors.rows, 50
  )
  start = np.zeros((50, 1), np.float32)
  _conjugate_gradients.solve_ridge(
    counted, labels[:, None], 1e-6, start, tolerance=1e-9, max_iterations=3
  )
  # One pass for the right-hand side, one for the first residual.
  assert sum(passes) == (2 + 3) * len(x)
  assert (
    "stopped after 3 iterations with a relative residual" in capsys.readouterr().out
  )
