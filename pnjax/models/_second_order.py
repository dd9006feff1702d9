"""Second-order pooling: the paper's layer."""

from __future__ import annotations

import math
import numbers
from typing import TYPE_CHECKING

from flax import linen as nn
import jax
from jax import lax
import jax.numpy as jnp
import numpy as np

from pnjax import ops
from pnjax.models._channel_dropout import adaptive_rate
from pnjax.models._channel_dropout import drop_channels
from pnjax.models._pooling import Pooling
from pnjax.models._pooling import at_least_float32

if TYPE_CHECKING:
  from jaxtyping import Array
  from jaxtyping import Float

# Normalizations of the literature for comparison, by their names in `pnjax.ops`.
_BASELINES = {
  "signed_sqrt": lambda m, lam: ops.signed_sqrt(m),
  "matrix_log": ops.matrix_log,
  "newton_schulz_sqrt": lambda m, lam: ops.newton_schulz_sqrt(m),
  "pade_sqrt": lambda m, lam: ops.pade_sqrt(m),
}

# Types of numbers, or of arrays that hold one.
_NUMBERS = (numbers.Real, np.ndarray, jax.Array)

# Outputs beyond this magnitude count as saturated: they have next to no gradient.
_SATURATED = 0.99


class SecondOrderPooling(Pooling):
  """Power Normalization of the co-occurrence matrix of the features, as a vector.

  Features are reduced, rectified, β-centered and augmented by their coordinates, which
  makes them φ̄ of length d' = d + 2Z. All positions of all patches of an image form one
  matrix; coordinates are local to a patch.

  For comparison, `power_norm` may also be `"signed_sqrt"` (BCNN), `"matrix_log"`
  (log-Euclidean, of M + λI), `"newton_schulz_sqrt"` (iSQRT-COV) or `"pade_sqrt"`
  (MPA-Lya).

  Attributes:
    spectral: Whether the Power Normalization acts on eigenvalues instead of entries.
    beta: β from 0 to 1. Element-wise Gamma and MaxExp are not defined for the
      negative entries that β > 0 causes.
    num_pivots: Number Z of pivots per coordinate; 0 for no coordinates.
    alpha: Weight α of the coordinates relative to the features.
    sigma: Bandwidth σ of the coordinates, in units of the side of the feature map.
    grid: Height and width of the grid that tokens come from, row by row; without it,
      tokens have no coordinates.
    trace_power: γ of the trace compensation Ψ (tr M + λ)^γ, or None to leave it out.
    kappa: κ of the residual Ψ + κM, or None to leave it out.
    reduction: Number of channels after a 1×1 convolution that comes first, or None.
    triangle: Whether to return the isometric upper triangle, `[B, d'(d' + 1)/2]`, or
      the whole matrix, `[B, d', d']`.
    rank: Number R of learned directions p, or None. The result is then pᵀΨp for each of
      them, `[B, R]`, and no d'×d' matrix is ever formed: a dense layer on top is a
      classifier whose weights have rank R, Σᵣ sᵣpᵣpᵣᵀ for each class. The Power
      Normalization has to be spectral, or none.
    dropout: Share of the channels to drop, each in a whole image, if there is a random
      key named `dropout`: `apply(..., rngs={"dropout": key})`, as in training.
      `"adaptive"` computes the share for each image, as DropCov does; None drops no
      channels.

  `beta` and `alpha` may be in `learnable`. If the collection `intermediates` is mutable
  and the Power Normalization is bounded, the share of entries beyond 0.99 of the bound
  is stored there as `saturation`: if it is large, the parameter is too large for these
  features. With `rank` there are no entries to report.
  """

  spectral: bool = False
  beta: float = 0.0
  num_pivots: int = 0
  alpha: float = 1.0
  sigma: float = 0.3
  grid: tuple[int, int] | None = None
  trace_power: float | None = None
  kappa: float | None = None
  reduction: int | None = None
  triangle: bool = True
  rank: int | None = None
  dropout: float | str | None = None

  @nn.compact
  def __call__(self, x: Float[Array, "B *positions d"]) -> Float[Array, "B ..."]:
    """Pools the feature map of a backbone."""
    self._check_power_norm(_BASELINES, also_learnable=("beta", "alpha"))
    self._check_numbers()
    self._check_beta()
    self._check_sizes()
    self._check_dropout()
    phi = self._augmented_features(x)
    if self.rank is not None:
      return self._forms(phi)
    psi = self._power_normalize(phi)
    self._report_saturation(psi)
    return ops.triu_vectorize(psi) if self.triangle else psi

  def _augmented_features(self, x: jax.Array) -> jax.Array:
    """Return the features φ̄ of all positions, `[B, N, d']`."""
    if self.reduction is not None:
      x = at_least_float32(x)
      x = nn.Dense(self.reduction, False, x.dtype, name="reduction")(x)
    x = self._features(x)
    coordinates = self._coordinates(x)
    phi = x.reshape(x.shape[0], math.prod(x.shape[1:-1]), x.shape[-1])
    phi = self._drop(phi)
    phi = ops.beta_center(phi, _into_unit_interval(self._learned("beta")))
    if coordinates is None:
      return phi
    return ops.append_coordinates(phi, coordinates)

  def _drop(self, phi: jax.Array) -> jax.Array:
    if not self.dropout or not self.has_rng("dropout"):
      return phi
    rate = adaptive_rate(phi) if isinstance(self.dropout, str) else self.dropout
    return drop_channels(self.make_rng("dropout"), phi, rate)

  def _needs_nonnegative(self) -> bool:
    return super()._needs_nonnegative() and not self.spectral

  def _check_numbers(self) -> None:
    for name in ("beta", "alpha", "sigma", "trace_power", "kappa"):
      value = getattr(self, name)
      is_left_out = value is None and name in ("trace_power", "kappa")
      if not (is_left_out or isinstance(value, _NUMBERS)):
        raise TypeError(f"`{name}` is {value!r}, expected a number.")

  def _check_beta(self) -> None:
    centered = self.beta > 0 or "beta" in self.learnable
    if centered and self._needs_nonnegative():
      raise ValueError(
        f"`beta` is {self.beta}, expected 0 for element-wise {self.power_norm}: "
        "centered features have negative co-occurrences, for which it is not "
        "defined. Use 'asinhe' or 'sigme', or `spectral=True`."
      )
    if not 0 <= self.beta <= 1:
      raise ValueError(f"`beta` is {self.beta}, expected a number from 0 to 1.")
    if self.spectral and self.norm is None:
      raise ValueError(
        f"`spectral` is True, but `power_norm` is {self.power_norm!r}, expected one of "
        f"{', '.join(map(repr, ops.POWER_NORMS))}."
      )

  def _check_sizes(self) -> None:
    for name in ("rank", "reduction"):
      size = getattr(self, name)
      if size is not None and (not isinstance(size, int) or size < 1):
        raise ValueError(
          f"`{name}` is {size}, expected a whole number of at least 1, or None."
        )
    count = self.num_pivots
    if not isinstance(count, numbers.Integral) or count < 0 or count == 1:
      raise ValueError(f"`num_pivots` is {count!r}, expected 0, or at least 2.")
    if self.rank is None:
      return
    if self.power_norm is not None and not self.spectral:
      raise ValueError(
        f"`rank` is {self.rank}, but element-wise {self.power_norm} needs the entries "
        "of the matrix, which `rank` never forms. Use `spectral=True` or no "
        "`power_norm`, or keep the matrix (`rank=None`) and make it smaller with "
        "`reduction`."
      )
    if not self.triangle:
      raise ValueError(f"`rank` is {self.rank}, expected None for `triangle=False`.")

  def _check_dropout(self) -> None:
    rate = self.dropout
    if rate is None or rate == "adaptive":
      return
    if not isinstance(rate, int | float) or not 0 <= rate < 1:
      raise ValueError(
        f"`dropout` is {rate!r}, expected 'adaptive', a number from 0 to below 1, or "
        "None."
      )

  def _learned(self, name: str) -> jax.Array | float:
    value = getattr(self, name)
    if name not in self.learnable:
      return value
    return self.param(name, nn.initializers.constant(value), ())

  def _coordinates(self, x: jax.Array) -> jax.Array | None:
    """Return the codes of all positions, `[N, 2Z]`, repeated for each patch."""
    if self.num_pivots == 0:
      return None
    height, width = x.shape[-3:-1] if x.ndim > 3 else self._grid_of(x)
    coordinates = ops.spatial_coordinates(
      height, width, self.num_pivots, self.sigma, self._learned("alpha")
    )
    patches = x.shape[1] if x.ndim == 5 else 1
    return jnp.tile(coordinates, (patches, 1))

  def _grid_of(self, tokens: jax.Array) -> tuple[int, int]:
    """Return the height and width of the grid that tokens come from."""
    if self.grid is None:
      raise ValueError(
        f"`x` has shape {tokens.shape}: tokens have no coordinates of their own. Give "
        "their `grid=(height, width)`, or set `num_pivots=0`."
      )
    if np.shape(self.grid) != (2,):
      raise ValueError(f"`grid` is {self.grid}, expected (height, width).")
    height, width = self.grid
    if height * width != tokens.shape[1]:
      raise ValueError(
        f"`x` has {tokens.shape[1]} tokens, but `grid` {self.grid} has "
        f"{height * width}."
      )
    return height, width

  def _power_normalize(self, phi: jax.Array) -> jax.Array:
    if self.power_norm is None:
      psi = ops.cooccurrence(phi)
    elif self.power_norm in _BASELINES:
      psi = _BASELINES[self.power_norm](ops.cooccurrence(phi), self.lam)
    else:
      pool = self._form("spectral" if self.spectral else "pool")
      psi = pool(phi, self._power_norm_parameter(), lam=self.lam)
    if self.trace_power is None and self.kappa is None:
      return psi
    m = ops.cooccurrence(phi)
    if self.trace_power is not None:
      psi = ops.trace_compensate(psi, m, self.trace_power, self.lam)
    if self.kappa is not None:
      psi = ops.add_residual(psi, m, self.kappa)
    return psi

  def _forms(self, phi: jax.Array) -> jax.Array:
    """Return the quadratic forms of Ψ along learned directions, `[B, R]`."""
    directions = self.param(
      "directions", nn.initializers.lecun_normal(), (phi.shape[-1], self.rank)
    )
    if self.power_norm is None:
      forms = ops.cooccurrence_forms(phi, directions)
    else:
      forms = self._form("forms")(
        phi, directions, self._power_norm_parameter(), lam=self.lam
      )
    if self.trace_power is not None:
      trace = jnp.sum(jnp.square(phi), axis=(-2, -1)) / phi.shape[-2]
      forms = forms * ops.gamma(trace, self.trace_power, self.lam)[:, None]
    if self.kappa is not None:
      forms = forms + self.kappa * ops.cooccurrence_forms(phi, directions)
    return forms

  def _report_saturation(self, psi: jax.Array) -> None:
    bounded = self.norm is not None and self.norm.bounded
    if bounded and self.is_mutable_collection("intermediates"):
      saturated = jnp.abs(psi) > _SATURATED
      self.sow("intermediates", "saturation", jnp.mean(saturated.astype(jnp.float32)))


def _into_unit_interval(beta: jax.Array | float) -> jax.Array | float:
  """Return β clipped to the interval from 0 to 1, with the derivative of β itself.

  The derivative of the clipped number is zero outside of the interval, from where a
  learned β would never return.
  """
  return beta + lax.stop_gradient(jnp.clip(beta, 0, 1) - beta)
