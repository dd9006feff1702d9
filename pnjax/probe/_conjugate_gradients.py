"""Ridge regression by conjugate gradients, for more vectors than a kernel can hold."""

import jax
import jax.numpy as jnp
import numpy as np

from pnjax import runtime
from pnjax.probe._vectors import PooledVectors


def solve_ridge(
  vectors: PooledVectors,
  targets: np.ndarray,
  ridge: float,
  start: np.ndarray,
  tolerance: float = 1e-3,
  max_iterations: int = 50,
) -> tuple[np.ndarray, np.ndarray]:
  """Fits one regression per target, with an offset that is not penalized.

  Every iteration passes over all vectors once; weights are all that is stored.

  Args:
    vectors: Vectors Ψᵢ to train on.
    targets: Targets, `[n, C]`.
    ridge: Penalty ρ of the squared weights, as in Σᵢ|Wᵀ(Ψᵢ − μ) − yᵢ + ȳ|² + ρ|W|².
    start: Weights `[D, C]` to start from.
    tolerance: Length of the residual, relative to that of the right-hand side, at
      which to stop.
    max_iterations: Number of iterations after which to stop in any case.

  Returns:
    Weights `[D, C]` and offsets `[C]`.
  """
  # The weights solve A W = B with A = Σᵢ (Ψᵢ − μ)(Ψᵢ − μ)ᵀ + ρI and
  # B = Σᵢ Ψᵢ (yᵢ − ȳ)ᵀ. The classes are separate problems that share A, and so the
  # passes over vectors.
  count = len(vectors)
  mean_target = targets.mean(axis=0)
  centered = jnp.asarray(targets - mean_target, jnp.float32)
  weights = jnp.asarray(start, jnp.float32)
  passes = count * (max_iterations + 2)
  with runtime.Progress(0, passes, "conjugate gradients") as progress:
    total, right = jnp.zeros((1, vectors.length)), jnp.zeros_like(weights)
    for first, block in vectors.blocks(progress):
      rows = centered[first : first + len(block)]
      total, right = _add_moments(total, right, block, rows)
    mean = total / count

    def apply(v: jax.Array) -> jax.Array:
      out = ridge * v
      for _, block in vectors.blocks(progress):
        out = _add_product(out, block, mean, v)
      return out

    residual = right - apply(weights)
    direction, squares = residual, _sums(jnp.square(residual))
    enough = tolerance**2 * _sums(jnp.square(right))
    for _ in range(max_iterations):
      if bool(jnp.all(squares <= enough)):
        break
      image = apply(direction)
      # A class that is solved already stays as it is.
      step = jnp.where(squares > enough, squares / _sums(direction * image), 0.0)
      weights, residual = weights + step * direction, residual - step * image
      squares, previous = _sums(jnp.square(residual)), squares
      direction = residual + squares / jnp.maximum(previous, 1e-30) * direction
    if tolerance and not bool(jnp.all(squares <= enough)):
      left = float(jnp.sqrt(jnp.max(squares / _sums(jnp.square(right)))))
      progress.print(
        f"conjugate gradients stopped after {max_iterations} iterations with a "
        f"relative residual of {left:.1e}, above {tolerance:.0e}"
      )
  offsets = mean_target - np.asarray(jnp.matmul(mean, weights, precision="highest"))[0]
  return np.asarray(weights), offsets


def _sums(x: jax.Array) -> jax.Array:
  """Return the sums over each column, `[1, C]`."""
  return jnp.sum(x, axis=0, keepdims=True)


@jax.jit
def _add_moments(total, right, block, targets):
  products = jnp.matmul(block.T, targets, precision="highest")
  return total + _sums(block), right + products


@jax.jit
def _add_product(out, block, mean, v):
  block = block - mean
  image = jnp.matmul(block, v, precision="highest")
  return out + jnp.matmul(block.T, image, precision="highest")
