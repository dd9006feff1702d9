"""Families of operators, and the checks and inputs that their tests share."""

import jax
import jax.numpy as jnp
from jax.test_util import check_grads
import numpy as np

from pnjax import ops

# Name: (function of a matrix, value of its parameter).
SPECTRAL = {
  "gamma": (ops.spectral_gamma, 0.5),
  "maxexp": (ops.spectral_maxexp, 7.3),
  "asinhe": (ops.spectral_asinhe, 3.0),
  "sigme": (ops.spectral_sigme, 12.0),
}

# Name: (function of features, value of its parameter).
SPECTRAL_POOLS = {
  "gamma": (ops.spectral_gamma_pool, 0.5),
  "maxexp": (ops.spectral_maxexp_pool, 7.3),
  "asinhe": (ops.spectral_asinhe_pool, 3.0),
  "sigme": (ops.spectral_sigme_pool, 12.0),
}

# The spectral functions with a finite slope at zero, i.e. all but Gamma.
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
  """The value f(x, parameter) and the cotangents of both arguments for g."""
  value, vjp = jax.vjp(f, jnp.asarray(x), parameter)
  return value, *vjp(jnp.asarray(g).astype(value.dtype))


def check_gradients(f, args, modes=("rev",)):
  """Compare first derivatives with central differences to 1e-6; needs float64."""
  # Compiled once instead of operation by operation.
  check_grads(jax.jit(f), args, 1, modes, atol=1e-6, rtol=1e-6, eps=1e-5)


def check_second_derivatives(f, args, modes=("fwd", "rev")):
  """Compare first and second derivatives, in all combinations of modes."""
  check_grads(jax.jit(f), args, 2, modes)


def features(rng, kind, dtype=np.float64):
  """Features of the shapes and degeneracies that pooling must handle."""
  x = np.maximum(rng.normal(size=(6, 9)), 0)
  return {
    "wide": x,
    "repeated vectors": np.repeat(x[:2], 3, axis=0),
    "repeated channels": np.repeat(x[:, :3], 3, axis=1),
    "rank one": np.outer(np.arange(1, 7), x[0]),
    "constant": np.ones((6, 9)),
    "centered": x - x.mean(axis=0),
    "one channel": np.eye(9)[:1] * np.arange(1, 7)[:, None],
    "zero": np.zeros((6, 9)),
    "tall": np.maximum(rng.normal(size=(14, 9)), 0),
    "one vector": x[:1],
  }[kind].astype(dtype)


# Kinds of features with 6 vectors of 9 channels.
WIDE = (
  "wide",
  "repeated vectors",
  "repeated channels",
  "rank one",
  "constant",
  "centered",
  "one channel",
  "zero",
)
FEATURES = (*WIDE, "tall", "one vector")
