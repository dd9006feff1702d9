"""Gaussian kernels as inner products, and the coordinates they encode.

Prop. 1 and Eq. 9 of the paper.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import jax.numpy as jnp

from pnjax.ops import _checks

if TYPE_CHECKING:
  from jax import Array
  from jax.typing import ArrayLike
  from jaxtyping import Float
  from jaxtyping import ScalarLike


def equally_spaced_pivots(
  num_pivots: int, low: float = -0.2, high: float = 1.2
) -> Float[Array, " Z"]:
  """Equally spaced pivots ζ from `low` to `high` (Sec. 4.1).

  >>> equally_spaced_pivots(3).round(1).tolist()
  [-0.20000000298023224, 0.5, 1.2000000476837158]

  Args:
    num_pivots: Number of pivots Z, at least 2; the paper uses 3 to 10.
    low: First pivot.
    high: Last pivot, above `low`.

  Returns:
    Pivots.
  """
  num_pivots = _checks.as_count("num_pivots", num_pivots, at_least=2)
  _checks.check_number("low", low)
  _checks.check_number("high", high)
  if not low < high:
    raise ValueError(f"`low` is {low} and `high` {high}, expected low < high.")
  return jnp.linspace(low, high, num_pivots)


def gaussian_feature_map(
  x: Float[ArrayLike, "*shape"], pivots: Float[ArrayLike, " Z"], sigma: ScalarLike
) -> Float[Array, "*shape Z"]:
  """Feature map φ(x) of the Gaussian kernel (Eq. 2).

  φ(x) = [G(x − ζ₁), ..., G(x − ζ_Z)], where G(z) = exp(−z²/σ²) is the Gaussian of
  bandwidth σ/√2.

  Args:
    x: Points.
    pivots: Pivots ζ.
    sigma: Bandwidth σ > 0 of the kernel that φ linearises.

  Returns:
    Values of φ at the points.
  """
  x = _checks.as_floating("x", x)
  z = _checks.upcast(x)[..., None]
  pivots = _as_pivots(pivots).astype(z.dtype)
  sigma = _checks.as_scalar("sigma", sigma, z.dtype, above=0)
  distance = z - pivots.reshape((1,) * x.ndim + (-1,))
  return jnp.exp(-jnp.square(distance / sigma)).astype(x.dtype)


def gaussian_kernel_constant(
  pivots: Float[ArrayLike, " Z"], sigma: ScalarLike
) -> Float[Array, ""]:
  """Constant c for which ⟨√c φ(x), √c φ(y)⟩ ≈ G_σ(x − y) (Eqs. 1 and 3).

  The integral over ζ in Eq. 1 becomes a sum over the pivots times their spacing:
  c = √(2 / πσ²) Δζ. The pivots should extend about σ beyond the points on both
  sides and be at most about σ apart.

  Args:
    pivots: Equally spaced pivots ζ.
    sigma: Bandwidth σ > 0 of the kernel.

  Returns:
    The constant c.
  """
  pivots = _as_pivots(pivots)
  sigma = _checks.as_scalar("sigma", sigma, pivots.dtype, above=0)
  spacing = (pivots[-1] - pivots[0]) / (pivots.shape[0] - 1)
  return math.sqrt(2 / math.pi) / sigma * spacing


def spatial_coordinates(
  height: int,
  width: int,
  num_pivots: int,
  sigma: ScalarLike,
  alpha: ScalarLike,
) -> Float[Array, "{height*width} {2*num_pivots}"]:
  """Encoded coordinates c_n = [α φ(x_n); α φ(y_n)] of a feature map (Eq. 9).

  Coordinates run from 0 to 1 along both sides and are 0 along a side of length 1.
  As in the paper, √c is omitted; α takes its place.

  >>> spatial_coordinates(height=14, width=14, num_pivots=5, sigma=0.3,
  ...                     alpha=1.0).shape
  (196, 10)

  Args:
    height: Height H of the feature map.
    width: Width W of the feature map.
    num_pivots: Number of pivots Z per coordinate, at least 2.
    sigma: Bandwidth σ > 0, in units of the side of the feature map.
    alpha: Weight α of the coordinates relative to the features.

  Returns:
    Encodings `[H·W, 2Z]`: row y·W + x holds the encoding of x, then that of y.
  """
  height = _checks.as_count("height", height)
  width = _checks.as_count("width", width)
  pivots = equally_spaced_pivots(num_pivots)
  alpha = _checks.as_scalar("alpha", alpha, pivots.dtype)
  y, x = jnp.meshgrid(
    jnp.arange(height, dtype=pivots.dtype) / max(height - 1, 1),
    jnp.arange(width, dtype=pivots.dtype) / max(width - 1, 1),
    indexing="ij",
  )
  codes = [gaussian_feature_map(c.reshape(-1), pivots, sigma) for c in (x, y)]
  return alpha * jnp.concatenate(codes, axis=-1)


def _as_pivots(pivots: ArrayLike) -> Float[Array, " Z"]:
  pivots = _checks.as_floating("pivots", pivots)
  if pivots.ndim != 1 or pivots.shape[0] < 2:
    raise ValueError(
      f"`pivots` has shape {pivots.shape}, expected [Z] with Z >= 2; "
      "create them with `equally_spaced_pivots`."
    )
  return pivots
