"""Probabilities behind MaxExp: Props. 3 and 4."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import jax.numpy as jnp
import numpy as np

from pnjax.ops import _checks
from pnjax.ops import _elementwise

if TYPE_CHECKING:
  from jax import Array
  from jax.typing import ArrayLike
  from jaxtyping import Float
  from jaxtyping import Int


def probability_at_least_one(
  p: Float[ArrayLike, "*shape"], n: int
) -> Float[Array, "*shape"]:
  """Probability 1 − (1 − p)ⁿ of at least one event in n trials (Eqs. 7 and 12).

  >>> probability_at_least_one(0.5, 2).item()
  0.75

  Args:
    p: Probability of the event in one trial, from 0 to 1.
    n: Number of independent trials.

  Returns:
    Probabilities of at least one event.
  """
  p = _checks.as_floating("p", p)
  x = _checks.upcast(p)
  eta = jnp.asarray(_checks.as_count("n", n), x.dtype)
  return _elementwise.maxexp_of_probability(x, eta).astype(p.dtype)


def probability_at_least_one_multinomial(
  p: Float[ArrayLike, "*shape"],
  q: Float[ArrayLike, "*shape"],
  s: Float[ArrayLike, "*shape"],
  n: int,
) -> Float[Array, "*shape"]:
  """Probability of at least one co-occurrence in n trials (Eq. 13).

  An explicit sum over the counts of the four outcomes for a pair of features: both
  occur (p), only the first (q), only the second (s), neither (1 − p − q − s). It has
  about n³/6 terms. By Prop. 4 it equals `probability_at_least_one(p, n)` for any q
  and s.

  Args:
    p: Probability that both occur.
    q: Probability that only the first occurs.
    s: Probability that only the second occurs.
    n: Number of independent trials.

  Returns:
    Probabilities of at least one co-occurrence.
  """
  p = _checks.as_floating("p", p)
  q = _checks.as_floating("q", q)
  s = _checks.as_floating("s", s)
  if not p.shape == q.shape == s.shape:
    raise ValueError(
      f"`p`, `q` and `s` have shapes {p.shape}, {q.shape} and {s.shape}, "
      "expected the same shape."
    )
  counts = _multinomial_counts(_checks.as_count("n", n))
  outcomes = jnp.stack([_checks.upcast(x) for x in (p, q, s)], axis=-1)
  neither = 1 - jnp.sum(outcomes, axis=-1, keepdims=True)
  outcomes = jnp.concatenate([outcomes, neither], axis=-1)
  terms = _multinomial_terms(outcomes[..., None, :], counts)
  return jnp.sum(terms, axis=-1).astype(p.dtype)


def _multinomial_counts(n: int) -> Int[np.ndarray, "T 4"]:
  """Count of the four outcomes that sum to n, with the first at least 1."""
  both, first, second = np.indices((n + 1,) * 3).reshape(3, -1)
  neither = n - both - first - second
  counts = np.stack([both, first, second, neither], axis=-1)
  return counts[(both >= 1) & (neither >= 0)]


def _multinomial_terms(
  outcomes: Float[Array, "*shape 1 4"], counts: Int[np.ndarray, "T 4"]
) -> Float[Array, "*shape T"]:
  """Probabilities of the counts.

  Coefficients overflow for a hundred trials, so logarithms are added instead. One
  factor x of each xᵏ is kept out of them for a correct derivative at x = 0.
  """
  n = int(counts[0].sum())
  log_factorial = np.array([math.lgamma(k + 1) for k in range(n + 1)])
  log_coefficient = log_factorial[n] - log_factorial[counts].sum(axis=-1)

  shape = (1,) * (outcomes.ndim - 2) + counts.shape
  k = jnp.asarray(counts, outcomes.dtype).reshape(shape)
  positive = outcomes > 0
  logs = jnp.log(jnp.where(positive, outcomes, 1))
  logs = jnp.where(positive | (k <= 1), (k - 1) * logs, -jnp.inf)
  logs = jnp.where(k >= 1, logs, 0)
  first_factors = jnp.prod(jnp.where(k >= 1, outcomes, 1), axis=-1)
  log_rest = jnp.sum(logs, axis=-1)
  log_rest += jnp.asarray(log_coefficient, outcomes.dtype).reshape(shape[:-1])
  return first_factors * jnp.exp(log_rest)
