"""Normalizations from the literature, as baselines for Power Normalizations.

MPN-COV is `spectral_gamma` with γ = ½.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jax import lax
import jax.numpy as jnp

from pnjax.ops import _checks
from pnjax.ops import _elementwise
from pnjax.ops import _linalg
from pnjax.ops import _scaling
from pnjax.ops import _spectral
from pnjax.ops import _spectrum
from pnjax.ops._linalg import matmul

if TYPE_CHECKING:
  from jax import Array
  from jax.typing import ArrayLike
  from jaxtyping import Float
  from jaxtyping import ScalarLike


def signed_sqrt(x: Float[ArrayLike, "*shape"]) -> Float[Array, "*shape"]:
  """Element-wise signed square root sign(x) √|x|, with derivative 0 at 0.

  Args:
    x: Array of any shape.

  Returns:
    Signed square roots of the entries of `x`.

  References:
    Lin, RoyChowdhury and Maji, Bilinear CNN Models for Fine-grained Visual
    Recognition, ICCV 2015.
  """
  x = _checks.as_floating("x", x)
  z = _checks.upcast(x)
  root = _elementwise.positive_power(jnp.abs(z), jnp.asarray(0.5, z.dtype))
  return (jnp.sign(z) * root).astype(x.dtype)


def l2_normalize(
  x: Float[ArrayLike, "*shape"], axis: int | tuple[int, ...] = -1
) -> Float[Array, "*shape"]:
  """Scale to unit length, x / ‖x‖; zero stays zero, with derivative 0.

  Args:
    x: Array of any shape.
    axis: Axis or axes over which the length is computed.

  Returns:
    Scaled array.
  """
  x = _checks.as_floating("x", x)
  z = _checks.upcast(x)
  largest = jnp.max(jnp.abs(z), axis=axis, keepdims=True)
  zero = largest == 0  # False for NaN, which must propagate.
  # Squares leave the range of float32 beyond 1e±19, so scale the largest entry to 1.
  z = z / lax.stop_gradient(jnp.where(zero, 1, largest))
  squares = jnp.sum(jnp.square(z), axis=axis, keepdims=True)
  length = jnp.sqrt(jnp.where(zero, 1, squares))
  return jnp.where(zero, 0, z / length).astype(x.dtype)


def matrix_log(
  m: Float[ArrayLike, "*batch d d"], lam: ScalarLike
) -> Float[Array, "*batch d d"]:
  """Matrix logarithm log(M + λI) of the log-Euclidean metric.

  Args:
    m: Symmetric positive semi-definite matrices.
    lam: Constant λ >= 0, which keeps the logarithm of zero eigenvalues finite.

  Returns:
    Matrix logarithms.

  References:
    Arsigny et al., Log-Euclidean Metrics for Fast and Simple Calculus on
    Diffusion Tensors, MRM 2006.
  """
  m = _checks.as_square("m", m)
  x = _checks.upcast(m)
  lam = _checks.as_scalar("lam", lam, x.dtype, at_least=0)
  return _spectral.matrix_function(_spectrum.LOG, x, lam).astype(m.dtype)


def newton_schulz_sqrt(
  m: Float[ArrayLike, "*batch d d"], iterations: int = 5
) -> Float[Array, "*batch d d"]:
  """Approximate matrix square root by Newton–Schulz iterations (iSQRT-COV).

  The matrix is divided by its trace before the coupled iteration, and the
  result is multiplied by the square root of the trace. Small eigenvalues need
  many iterations; `spectral_gamma` with γ = ½ is exact.

  Args:
    m: Symmetric positive semi-definite matrices.
    iterations: Number of iterations, 5 in the iSQRT-COV paper.

  Returns:
    Approximate matrix square roots.

  References:
    Li et al., Towards Faster Training of Global Covariance Pooling Networks by
    Iterative Matrix Square Root Normalization, CVPR 2018.
  """
  m = _checks.as_square("m", m)
  iterations = _checks.as_count("iterations", iterations)
  x = _checks.upcast(m)
  identity = jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape)
  y, z = _scaling.trace_normalize(x, 0), identity
  for _ in range(iterations):
    t = (3 * identity - matmul(z, y)) / 2
    y, z = matmul(y, t), matmul(t, z)
  half = jnp.asarray(0.5, x.dtype)
  root = _elementwise.positive_power(_linalg.trace(x), half)
  return (root[..., None, None] * y).astype(m.dtype)
