"""Parameters of Power Normalizations from the scale of the features at hand."""

import math

import jax
from jax import lax
import jax.numpy as jnp
from jax.typing import ArrayLike

from pnjax.ops import _checks
from pnjax.ops import _linalg
from pnjax.ops import _scaling

# Share of entries (or eigenvalues) below the one that is looked at, and what a
# Power Normalization is to make of that one. Of eigenvalues a few are large, so that
# the others need not come close to saturation; the best η of sweeps on training
# pictures was 100 for AlexNet (level 0.36) and 5 for ResNet-50 (level 0.04).
_QUANTILE = 0.9
_LEVEL = 0.5
_EIGENVALUE_LEVEL = 0.1
# Columns of M, evenly spread, whose entries are looked at: all of them up to here.
_NUM_COLUMNS = 256


def suggest_parameters(phi: ArrayLike) -> dict[str, jax.Array]:
  """Suggests parameters from one batch of features.

  Good values depend on the scale and the sparsity of the features, so they do
  not carry over between backbones. Measured on the batch, M the co-occurrence
  matrix of an image:

  * `alpha`, for `spatial_coordinates`: a third of the mean norm of φ.
  * `eta_prime`, for `sigme` and `spectral_sigme`: takes the 0.9-quantile of the
    nonzero entries |M|/tr M to ½. Element-wise `maxexp` has the same slope at zero with
    half of it.
  * `eta`, for `spectral_maxexp`: takes the 0.9-quantile of the nonzero
    eigenvalues of M/tr M to 0.1, at least 1. Round it to use products only.
  * `gamma_prime`, for `asinhe` and `spectral_asinhe`: the reciprocal of the
    0.9-quantile of the nonzero entries |M|, where AsinhE turns from linear to
    logarithmic.

  Quantiles are averaged over images; those of entries are of 256 columns of M, evenly
  spread, where there are more. For features c·φ, `alpha` is c times and
  `gamma_prime` c⁻² times as large, the others stay, and so does the pooled
  matrix with any of the four functions (up to λ).

  >>> sorted(suggest_parameters(jnp.ones((4, 49, 8))))
  ['alpha', 'eta', 'eta_prime', 'gamma_prime']

  Args:
    phi: features `[..., N, d]`, rectified and β-centered as they are to be used,
      without coordinates.

  Returns:
    A dictionary of scalars `alpha`, `eta_prime`, `eta` and `gamma_prime`; 1
    where the features are zero and say nothing, NaN where they are not finite.
  """
  phi = _checks.as_features("phi", phi)
  x = _checks.upcast(phi)
  norm = jnp.mean(jnp.linalg.norm(x, axis=-1))
  entry, share, eigenvalue = (
    jnp.nanmean(q) for q in lax.map(_quantiles, x.reshape(-1, *x.shape[-2:]))
  )
  return _or_one(
    jnp.all(jnp.isfinite(x)),
    alpha=norm / 3,
    eta_prime=_sigme_slope(share),
    eta=_maxexp_slope(eigenvalue, _EIGENVALUE_LEVEL),
    gamma_prime=1 / entry,
  )


def suggest_first_order_parameters(mean: ArrayLike) -> dict[str, jax.Array]:
  """Suggests parameters for averages of features, as `suggest_parameters` does.

  `eta` is for `first_order_maxexp`, `gamma_prime` for `asinhe` and `eta_prime` for
  `sigme(..., trace_normalize=False)`.

  Args:
    mean: averages `[..., d]`, as `mean(phi, axis=-2)` gives them.

  Returns:
    A dictionary of scalars `eta_prime`, `eta` and `gamma_prime`; 1 where the
    averages are zero and say nothing, NaN where they are not finite.
  """
  mean = _checks.as_floating("mean", mean)
  x = jnp.abs(_checks.upcast(mean))
  entry = jnp.nanmean(_nonzero_quantile(x, axis=-1))
  share = entry / jnp.mean(jnp.sum(x, axis=-1))
  return _or_one(
    jnp.all(jnp.isfinite(x)),
    eta_prime=_sigme_slope(entry),
    eta=_maxexp_slope(share, _LEVEL),
    gamma_prime=1 / entry,
  )


def _sigme_slope(x: jax.Array) -> jax.Array:
  """Returns the η' for which SigmE takes x to the level."""
  return 2 * math.atanh(_LEVEL) / x


def _maxexp_slope(x: jax.Array, level: float) -> jax.Array:
  """Returns the η, at least 1, for which MaxExp takes x to the level."""
  return jnp.maximum(math.log1p(-level) / jnp.log1p(-x), 1)


def _or_one(finite: jax.Array, **suggestions: jax.Array) -> dict[str, jax.Array]:
  """Returns 1 for what says nothing, and NaN for features that are not finite."""
  return {
    name: jnp.where(
      finite, jnp.where((value > 0) & jnp.isfinite(value), value, 1), jnp.nan
    )
    for name, value in suggestions.items()
  }


def _quantiles(x: jax.Array) -> tuple[jax.Array, jax.Array, jax.Array]:
  """Quantiles of |M|, |M|/tr M and the eigenvalues of M/tr M that are not zero."""
  # Sorting four million entries takes a second; a part of the columns says the same.
  columns = x[:, :: math.ceil(x.shape[1] / _NUM_COLUMNS)]
  entry = _nonzero_quantile(jnp.abs(_linalg.matmul(x.T, columns))) / x.shape[0]
  trace = jnp.sum(jnp.square(x)) / x.shape[0]
  k = _linalg.self_product(x.T if x.shape[0] < x.shape[1] else x)
  eigenvalues = jnp.linalg.eigvalsh(_scaling.trace_normalize(k, 0))
  # Zeros of the decomposition are as large as its rounding.
  rounding = jnp.finfo(x.dtype).eps * len(k) * jnp.max(eigenvalues)
  eigenvalue = _nonzero_quantile(eigenvalues, above=rounding)
  return entry, entry / trace, eigenvalue


def _nonzero_quantile(
  x: jax.Array, axis: int | None = None, above: ArrayLike = 0
) -> jax.Array:
  """Quantile of the numbers that are larger; NaN if none is."""
  return jnp.nanquantile(jnp.where(x > above, x, jnp.nan), _QUANTILE, axis=axis)
