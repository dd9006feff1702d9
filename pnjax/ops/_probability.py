"""Probabilities behind MaxExp: Props. 3 and 4."""

import math

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
import numpy as np

from pnjax.ops import _checks
from pnjax.ops import _elementwise


def probability_at_least_one(p: ArrayLike, n: int) -> jax.Array:
  """Probability 1 − (1 − p)ⁿ of at least one event in n trials (Eqs. 7 and 12).

  >>> probability_at_least_one(0.5, 2).item()
  0.75

  Args:
    p: probability of the event in one trial, `[...]`, from 0 to 1.
    n: number of independent trials.

  Returns:
    Probabilities `[...]`.
  """
  p = _checks.as_floating("p", p)
  x = _checks.upcast(p)
  n = jnp.asarray(_checks.as_count("n", n), x.dtype)
  return _elementwise.maxexp_of_probability(x, n).astype(p.dtype)


def probability_at_least_one_multinomial(
  p: ArrayLike, q: ArrayLike, s: ArrayLike, n: int
) -> jax.Array:
  """Probability of at least one co-occurrence in n trials (Eq. 13).

  The explicit sum over the counts of the four outcomes of a pair of features:
  both occur (p), only the first (q), only the second (s), neither (1 − p − q − s).
  It has about n³/6 terms. Prop. 4 says that it equals
  `probability_at_least_one(p, n)` whatever q and s are.

  Args:
    p: probability that both occur, `[...]`.
    q: probability of the first alone, of the shape of `p`.
    s: probability of the second alone, of the shape of `p`.
    n: number of independent trials.

  Returns:
    Probabilities `[...]`.
  """
  p = _checks.as_floating("p", p)
  q = _checks.as_floating("q", q)
  s = _checks.as_floating("s", s)
  if not p.shape == q.shape == s.shape:
    raise ValueError(
      f"`p`, `q` and `s` have shapes {p.shape}, {q.shape} and {s.shape}, "
      "expected the same."
    )
  counts = _multinomial_counts(_checks.as_count("n", n))
  outcomes = jnp.stack([_checks.upcast(x) for x in (p, q, s)], axis=-1)
  neither = 1 - jnp.sum(outcomes, axis=-1, keepdims=True)
  outcomes = jnp.concatenate([outcomes, neither], axis=-1)
  terms = _multinomial_terms(outcomes[..., None, :], counts)
  return jnp.sum(terms, axis=-1).astype(p.dtype)


def _multinomial_counts(n: int) -> np.ndarray:
  """Counts of the four outcomes that sum to n, the first at least 1: `[T, 4]`."""
  both, first, second = np.indices((n + 1,) * 3).reshape(3, -1)
  neither = n - both - first - second
  counts = np.stack([both, first, second, neither], axis=-1)
  return counts[(both >= 1) & (neither >= 0)]


def _multinomial_terms(outcomes: jax.Array, counts: np.ndarray) -> jax.Array:
  """Probabilities of the counts, `[..., T]`.

  Coefficients overflow for a hundred trials, so they are multiplied as
  logarithms. One factor x of each xᵏ stays outside of them, which makes the
  derivative right at x = 0.
  """
  n = int(counts[0].sum())
  log_factorial = np.array([math.lgamma(k + 1) for k in range(n + 1)])
  log_coefficient = log_factorial[n] - log_factorial[counts].sum(axis=-1)

  shape = (1,) * (outcomes.ndim - 2) + counts.shape
  counts = jnp.asarray(counts, outcomes.dtype).reshape(shape)
  log_coefficient = jnp.asarray(log_coefficient, outcomes.dtype)
  positive = outcomes > 0
  logs = jnp.log(jnp.where(positive, outcomes, 1))
  logs = jnp.where(positive | (counts <= 1), (counts - 1) * logs, -jnp.inf)
  logs = jnp.where(counts >= 1, logs, 0)
  first_factors = jnp.prod(jnp.where(counts >= 1, outcomes, 1), axis=-1)
  log_rest = jnp.sum(logs, axis=-1) + log_coefficient.reshape(shape[:-1])
  return first_factors * jnp.exp(log_rest)
