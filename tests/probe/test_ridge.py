import numpy as np
import pytest
from sklearn import linear_model

from pnjax import probe
from pnjax.probe import _ridge


@pytest.fixture
def problem(rng):
  """Vectors of four classes, 60 to train on and 40 others."""
  labels = np.arange(100) % 4
  x = rng.standard_normal((100, 30)) + 2 * rng.standard_normal((4, 30))[labels]
  return x[:60], labels[:60], x[60:], labels[60:]


def test_equals_ridge_regression_in_the_primal(problem):
  x, labels, x_test, _ = problem
  fitted = probe.fit_ridge(x @ x.T, labels, 4)
  targets = np.where(np.arange(4) == labels[:, None], 1.0, -1.0)
  scale = np.mean(np.sum(np.square(x - x.mean(axis=0)), axis=1))
  primal = linear_model.Ridge(alpha=fitted.regularization * scale).fit(x, targets)
  np.testing.assert_allclose(
    fitted.scores(x_test @ x.T), primal.predict(x_test), rtol=1e-6, atol=1e-8
  )


def test_regularization_is_the_best_when_one_is_left_out(problem):
  x, labels, _, _ = problem
  fitted = probe.fit_ridge(x @ x.T, labels, 4)
  targets = np.where(np.arange(4) == labels[:, None], 1.0, -1.0)
  scale = np.mean(np.sum(np.square(x - x.mean(axis=0)), axis=1))

  def accuracy(regularization):
    right = 0
    for i in range(len(x)):
      rest = np.arange(len(x)) != i
      model = linear_model.Ridge(alpha=regularization * scale).fit(
        x[rest], targets[rest]
      )
      right += np.argmax(model.predict(x[i : i + 1])) == labels[i]
    return right / len(x)

  accuracies = {r: accuracy(r) for r in _ridge.REGULARIZATIONS[::3]}
  assert accuracy(fitted.regularization) >= max(accuracies.values())


def test_classifies_other_examples(problem):
  x, labels, x_test, labels_test = problem
  fitted = probe.fit_ridge((x @ x.T).astype(np.float32), labels, 4)
  assert np.mean(fitted.predict(x_test @ x.T) == labels_test) > 0.9


def test_equal_vectors_do_not_break_it():
  labels = np.array([0, 1, 0, 1])
  assert np.isfinite(
    probe.fit_ridge(np.ones((4, 4)), labels, 2).scores(np.ones((3, 4)))
  ).all()
