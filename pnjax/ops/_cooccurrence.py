"""Feature vectors and their co-occurrence matrices.

Secs. 3.3 and 4.1, Eqs. 4 and 10 of the paper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax.numpy as jnp

from pnjax.ops import _checks
from pnjax.ops import _linalg

if TYPE_CHECKING:
  from jax import Array
  from jax.typing import ArrayLike
  from jaxtyping import Float
  from jaxtyping import ScalarLike


def beta_center(
  phi: Float[ArrayLike, "*batch N d"], beta: ScalarLike
) -> Float[Array, "*batch N d"]:
  """β-centered features φ − βμ, where μ is their mean (Sec. 4.1).

  Values below the mean become evidence of absence. Element-wise Gamma and MaxExp
  do not accept the negative co-occurrences that result.

  >>> beta_center(jnp.array([[0.0, 4.0], [2.0, 4.0]]), beta=0.5).tolist()
  [[-0.5, 2.0], [1.5, 2.0]]

  Args:
    phi: Feature vectors.
    beta: Centering β from 0 (unchanged) to 1 (zero mean).

  Returns:
    Centered feature vectors.
  """
  phi = _checks.as_features("phi", phi)
  x = _checks.upcast(phi)
  beta = _checks.as_scalar("beta", beta, x.dtype, at_least=0, at_most=1)
  return (x - beta * jnp.mean(x, axis=-2, keepdims=True)).astype(phi.dtype)


def append_coordinates(
  phi: Float[ArrayLike, "*batch N d"], coords: Float[ArrayLike, "*#batch N k"]
) -> Float[Array, "*batch N d+k"]:
  """Augmented features φ̄ = [φ; c] (Sec. 4.1).

  >>> append_coordinates(jnp.ones((8, 49, 2048)), jnp.ones((49, 10))).shape
  (8, 49, 2058)

  Args:
    phi: Feature vectors.
    coords: Encoded positions, see `spatial_coordinates`. Batch axes may be absent
      and broadcast against those of `phi`.

  Returns:
    Augmented feature vectors.
  """
  phi = _checks.as_features("phi", phi)
  coords = _checks.as_features("coords", coords)
  *batch, num_vectors, _ = phi.shape
  *coords_batch, num_coords, width = coords.shape
  broadcasts = len(coords_batch) <= len(batch) and all(
    c in (1, b) for c, b in zip(coords_batch[::-1], batch[::-1], strict=False)
  )
  if num_coords != num_vectors or not broadcasts:
    raise ValueError(
      f"`coords` has shape {coords.shape}, expected [N, k] = "
      f"[{num_vectors}, k] or one such matrix for each batch entry of `phi` "
      f"of shape {phi.shape}."
    )
  coords = jnp.broadcast_to(coords, (*batch, num_vectors, width))
  return jnp.concatenate([phi, coords.astype(phi.dtype)], axis=-1)


def cooccurrence(phi: Float[ArrayLike, "*batch N d"]) -> Float[Array, "*batch d d"]:
  """Co-occurrence matrix M = 1/N Σₙ φₙφₙᵀ (Eq. 10).

  Before a Power Normalization, use `sigme_pool(phi, ...)` and the like instead: a
  single operator, whose derivative passes over the matrix once. MaxExp and SigmE divide
  by the trace and accept features of any scale. The other functions need co-occurrences
  that float32 can represent, as those of features up to about 1e18; beyond, they are
  infinite or NaN.

  >>> cooccurrence(jnp.array([[1.0, 0.0], [1.0, 1.0]])).tolist()
  [[1.0, 0.5], [0.5, 0.5]]

  Args:
    phi: Feature vectors.

  Returns:
    Symmetric positive semi-definite matrices of rank at most N.
  """
  phi = _checks.as_features("phi", phi)
  x = _checks.upcast(phi)
  return (_linalg.self_product(x) / x.shape[-2]).astype(phi.dtype)


def tensor_feature_map(phi: Float[ArrayLike, "*batch N d"], order: int) -> Array:
  """Mean r-th order tensor Ψ = 1/N Σₙ φₙ ⊗ ... ⊗ φₙ (Prop. 2, Eq. 4).

  ⟨Ψ(A), Ψ(B)⟩ is the mean of ⟨a, b⟩ʳ over all pairs of vectors. Order 1 is the
  mean vector, order 2 the co-occurrence matrix.

  >>> tensor_feature_map(jnp.ones((49, 8)), order=3).shape
  (8, 8, 8)

  Args:
    phi: Feature vectors.
    order: Order r >= 1.

  Returns:
    Tensors `[..., d, ..., d]` with r axes of length d.
  """
  phi = _checks.as_features("phi", phi)
  order = _checks.as_count("order", order)
  x = _checks.upcast(phi)
  *batch, num_vectors, dim = x.shape
  powers = jnp.ones((*batch, num_vectors, 1), x.dtype)
  for _ in range(order - 1):
    powers = powers[..., :, None] * x[..., None, :]
    powers = powers.reshape(*batch, num_vectors, -1)
  psi = _linalg.matmul(powers.mT, x) / num_vectors
  return psi.reshape(*batch, *[dim] * order).astype(phi.dtype)
