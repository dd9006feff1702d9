"""The operators in families, so that one test can be about all of a kind."""

import jax
import jax.numpy as jnp
from jax.test_util import check_grads
import numpy as np

from pnjax import ops

# Name: (function of a matrix, its one parameter).
SPECTRAL = {
  "gamma": (ops.spectral_gamma, 0.5),
  "maxexp": (ops.spectral_maxexp, 7.3),
  "asinhe": (ops.spectral_asinhe, 3.0),
  "sigme": (ops.spectral_sigme, 12.0),
}

# Name: (function of features, its one parameter).
SPECTRAL_POOLS = {
  "gamma": (ops.spectral_gamma_pool, 0.5),
  "maxexp": (ops.spectral_maxexp_pool, 7.3),
  "asinhe": (ops.spectral_asinhe_pool, 3.0),
  "sigme": (ops.spectral_sigme_pool, 12.0),
}

# The spectral functions without γ, whose slope at zero is infinite.
SMOOTH = ("maxexp", "asinhe", "sigme")

ELEMENTWISE = {
  "gamma": (ops.gamma, 0.5),
  "maxexp": (ops.maxexp, 7.3),
  "asinhe": (ops.asinhe, 3.0),
  "sigme": (ops.sigme, 12.0),
}

ELEMENTWISE_POOLS = {
  "gamma": (ops.gamma_pool, 0.5),
  "maxexp": (ops.maxexp_pool, 7.3),
  "asinhe": (ops.asinhe_pool, 3.0),
  "sigme": (ops.sigme_pool, 12.0),
}


def matrix_with_spectrum(rng, eigenvalues):
  """A symmetric matrix with the given eigenvalues, and its eigenvectors."""
  q, _ = np.linalg.qr(rng.normal(size=(len(eigenvalues),) * 2))
  return (q * np.asarray(eigenvalues)) @ q.T, q


def value_and_derivatives(f, x, parameter, g):
  """f(x, parameter), and the cotangents of both for the cotangent g."""
  x, g = jnp.asarray(x), jnp.asarray(g)
  value, vjp = jax.vjp(f, x, parameter)
  return value, *vjp(g.astype(value.dtype))


def check_gradients(f, args, modes=("rev",)):
  """`check_grads` to a relative error of 1e-6, in float64."""
  check_grads(f, args, 1, modes, atol=1e-6, rtol=1e-6, eps=1e-5)


def check_second_derivatives(f, args, modes=("fwd", "rev")):
  """`check_grads` of first and second order, in float64."""
  check_grads(f, args, 2, modes)


def features(rng, kind, dtype=np.float64):
  """Features in the shapes and degeneracies that pooling has to survive."""
  x = np.maximum(rng.normal(size=(6, 9)), 0)
  return {
    "wide": x,
    "tall": x.T,
    "square": x[:, :6],
    "batch": np.maximum(rng.normal(size=(2, 4, 7)), 0),
    "one vector": x[:1],
    "repeated vectors": np.repeat(x[:2], 3, axis=0),
    "rank one": np.outer(np.arange(1, 7), x[0]),
    "constant": np.ones((6, 9)),
    "centered": x - x.mean(axis=0),
    "one channel": np.eye(9)[:1] * np.arange(1, 7)[:, None],
    "zero": np.zeros((6, 9)),
  }[kind].astype(dtype)


FEATURES = (
  "wide",
  "tall",
  "square",
  "batch",
  "one vector",
  "repeated vectors",
  "rank one",
  "constant",
  "centered",
  "one channel",
  "zero",
)
