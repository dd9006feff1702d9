"""Parameters of Power Normalizations from the scale of given features."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from jax import lax
import jax.numpy as jnp

from pnjax.ops import _checks
from pnjax.ops import _linalg
from pnjax.ops import _scaling

if TYPE_CHECKING:
  from jax import Array
  from jax.typing import ArrayLike
  from jaxtyping import Float
  from jaxtyping import ScalarLike

# A Power Normalization should take this quantile of the entries (or eigenvalues) to
# this level. Only a few eigenvalues are large, so the rest need not come close to
# saturation: in sweeps on training images the best η was 100 for AlexNet (level 0.36)
# and 5 for ResNet-50 (level 0.04).
_QUANTILE = 0.9
_LEVEL = 0.5
_EIGENVALUE_LEVEL = 0.1
# Maximum number of columns of M, evenly spaced, that the quantiles are taken from.
_NUM_COLUMNS = 256


def suggest_parameters(
  phi: Float[ArrayLike, "*batch N d"],
) -> dict[str, Float[Array, ""]]:
  """Suggest parameters from one batch of features.

  Good values depend on the scale and the sparsity of the features, so they do not
  carry over between backbones. With M the co-occurrence matrix of an image:

  * `alpha`, for `spatial_coordinates`: a third of the mean norm of φ.
  * `eta_prime`, for `sigme` and `spectral_sigme`: takes the 0.9-quantile of the
    nonzero entries of |M|/tr M to ½. Half of it gives element-wise `maxexp` the same
    slope at zero.
  * `eta`, for `spectral_maxexp`: takes the 0.9-quantile of the nonzero eigenvalues of
    M/tr M to 0.1; at least 1. Round it to use only matrix products.
  * `gamma_prime`, for `asinhe` and `spectral_asinhe`: the reciprocal of the
    0.9-quantile of the nonzero entries of |M|, where AsinhE turns from linear to
    logarithmic.

  Quantiles are averaged over images; those of entries use at most 256 columns of M,
  evenly spaced. For features c·φ, `alpha` is c times and `gamma_prime` c⁻² times as
  large. The others are unchanged, and so is the pooled matrix of each of the four
  functions (up to λ).

  >>> sorted(suggest_parameters(jnp.ones((4, 49, 8))))
  ['alpha', 'eta', 'eta_prime', 'gamma_prime']

  Args:
    phi: Feature vectors, rectified and β-centered as for pooling, but without
      coordinates.

  Returns:
    Dictionary of scalars `alpha`, `eta_prime`, `eta` and `gamma_prime`; all are 1 if
    the features are zero, and NaN if they or their squares are not finite.
  """
  phi = _checks.as_features("phi", phi)
  x = _checks.upcast(phi)
  norm = jnp.mean(jnp.linalg.norm(x, axis=-1))
  entry, share, eigenvalue = (
    jnp.nanmean(q) for q in lax.map(_quantiles, x.reshape(-1, *x.shape[-2:]))
  )
  return _or_one(
    jnp.isfinite(jnp.sum(jnp.square(x))),
    alpha=norm / 3,
    eta_prime=_sigme_slope(share),
    eta=_maxexp_slope(eigenvalue, _EIGENVALUE_LEVEL),
    gamma_prime=1 / entry,
  )


def suggest_first_order_parameters(
  mean: Float[ArrayLike, "*batch d"],
) -> dict[str, Float[Array, ""]]:
  """Suggest parameters for mean feature vectors, like `suggest_parameters`.

  `eta` is for `first_order_maxexp`, `gamma_prime` for `asinhe` and `eta_prime` for
  `sigme(..., trace_normalize=False)`.

  Args:
    mean: Mean feature vectors, as returned by `jnp.mean(phi, axis=-2)`.

  Returns:
    Dictionary of scalars `eta_prime`, `eta` and `gamma_prime`; all are 1 if the means
    are zero, and NaN if they are not finite.
  """
  mean = _checks.as_vectors("mean", mean)
  x = jnp.abs(_checks.upcast(mean))
  entry = jnp.nanmean(_nonzero_quantile(x, axis=-1))
  share = entry / jnp.mean(jnp.sum(x, axis=-1))
  return _or_one(
    jnp.all(jnp.isfinite(x)),
    eta_prime=_sigme_slope(entry),
    eta=_maxexp_slope(share, _LEVEL),
    gamma_prime=1 / entry,
  )


def _sigme_slope(x: Array) -> Array:
  """Return η' for which SigmE takes x to `_LEVEL`."""
  return 2 * math.atanh(_LEVEL) / x


def _maxexp_slope(x: Array, level: float) -> Array:
  """Return η for which MaxExp takes x to `level`, or 1 if that is larger."""
  return jnp.maximum(math.log1p(-level) / jnp.log1p(-x), 1)


def _or_one(finite: Array, **suggestions: Array) -> dict[str, Array]:
  """Replace undefined suggestions by 1, and all by NaN for non-finite features."""
  return {
    name: jnp.where(
      finite, jnp.where((value > 0) & jnp.isfinite(value), value, 1), jnp.nan
    )
    for name, value in suggestions.items()
  }


def _quantiles(x: Float[Array, "N d"]) -> tuple[Array, Array, Array]:
  """Quantiles of nonzero entries |M| and |M|/tr M and of eigenvalues of M/tr M."""
  # Sorting four million entries takes a second; some of the columns are enough.
  columns = x[:, :: math.ceil(x.shape[1] / _NUM_COLUMNS)]
  entry = _nonzero_quantile(jnp.abs(_linalg.matmul(x.T, columns))) / x.shape[0]
  trace = jnp.sum(jnp.square(x)) / x.shape[0]
  k = _linalg.self_product(x.T if x.shape[0] < x.shape[1] else x)
  eigenvalues = jnp.linalg.eigvalsh(_scaling.trace_normalize(k, 0))
  # Zero eigenvalues come out as large as the rounding error of the decomposition.
  rounding = jnp.finfo(x.dtype).eps * len(k) * jnp.max(eigenvalues)
  eigenvalue = _nonzero_quantile(eigenvalues, above=rounding)
  return entry, entry / trace, eigenvalue


def _nonzero_quantile(
  x: Array, axis: int | None = None, above: ScalarLike = 0
) -> Array:
  """Quantile of the entries larger than `above`; NaN if there are none."""
  return jnp.nanquantile(jnp.where(x > above, x, jnp.nan), _QUANTILE, axis=axis)
