"""Pooling of feature maps into vectors, as Flax modules.

They take the map of any backbone, `[B, H, W, d]`; the maps of P patches of each
picture, `[B, P, H, W, d]`; or the tokens of a transformer, `[B, N, d]`.
"""

from collections.abc import Iterable
import math

from flax import linen as nn
import jax
from jax import lax
import jax.numpy as jnp
import numpy as np

from pnjax import ops

# The parameter of each Power Normalization, by its name in `pnjax.ops`, and the
# value it has where none is given.
PARAMETERS = {
  "gamma": ("power", 0.5),
  "maxexp": ("eta", 20),
  "asinhe": ("gamma_prime", 1e3),
  "sigme": ("eta_prime", 1e3),
}

_ELEMENTWISE = {
  "gamma": ops.gamma_pool,
  "maxexp": ops.maxexp_pool,
  "asinhe": lambda phi, gamma_prime, lam: ops.asinhe_pool(phi, gamma_prime),
  "sigme": ops.sigme_pool,
}
_SPECTRAL = {
  "gamma": lambda phi, power, lam: ops.spectral_gamma_pool(phi, power),
  "maxexp": ops.spectral_maxexp_pool,
  "asinhe": lambda phi, gamma_prime, lam: ops.spectral_asinhe_pool(phi, gamma_prime),
  "sigme": ops.spectral_sigme_pool,
}
_FORMS = {
  "gamma": lambda phi, directions, power, lam: ops.spectral_gamma_forms(
    phi, directions, power
  ),
  "maxexp": ops.spectral_maxexp_forms,
  "asinhe": lambda phi, directions, gamma_prime, lam: ops.spectral_asinhe_forms(
    phi, directions, gamma_prime
  ),
  "sigme": ops.spectral_sigme_forms,
}
_FIRST_ORDER = {
  "gamma": ops.gamma,
  "maxexp": ops.first_order_maxexp,
  "asinhe": lambda mean, gamma_prime, lam: ops.asinhe(mean, gamma_prime),
  "sigme": lambda mean, eta_prime, lam: ops.sigme(
    mean, eta_prime, lam, trace_normalize=False
  ),
}

# What else the literature does to a co-occurrence matrix, by its name in `pnjax.ops`.
_BASELINES = {
  "signed_sqrt": lambda m, lam: ops.signed_sqrt(m),
  "matrix_log": ops.matrix_log,
  "newton_schulz_sqrt": lambda m, lam: ops.newton_schulz_sqrt(m),
}

# Outputs from here on count as saturated: next to no gradient is left.
_SATURATED = 0.99


class Pooling(nn.Module):
  """What first- and second-order pooling share: rectification and parameters.

  Attributes:
    power_norm: `"gamma"`, `"maxexp"`, `"asinhe"`, `"sigme"`, or None for the plain
      average.
    power: γ of Gamma, 0.5 if None. Only the parameter of the Power Normalization
      that is used may be given.
    eta: η of MaxExp, 20 if None. A Python integer makes the spectral form faster.
    gamma_prime: γ' of AsinhE, 1e3 if None.
    eta_prime: η' of SigmE, 1e3 if None.
    lam: λ of Gamma, and of the trace in MaxExp and SigmE.
    rectify: whether features are rectified first.
    learnable: names among the parameters above (and those that a subclass adds)
      to be learned from their values on. Parameters of Power Normalizations are
      stored as logarithms, which keeps them positive.
  """

  power_norm: str | None = None
  power: float | None = None
  eta: float | int | None = None
  gamma_prime: float | None = None
  eta_prime: float | None = None
  lam: float = 1e-6
  rectify: bool = True
  learnable: tuple[str, ...] = ()

  def _check_power_norm(
    self, also_known: Iterable[str] = (), also_learnable: tuple[str, ...] = ()
  ) -> None:
    known = (*PARAMETERS, *also_known)
    if self.power_norm is not None and self.power_norm not in known:
      raise ValueError(
        f"`power_norm` is {self.power_norm!r}, expected None or one of "
        f"{', '.join(map(repr, known))}."
      )
    used, _ = PARAMETERS.get(self.power_norm, (None, None))
    for name, _ in PARAMETERS.values():
      if getattr(self, name) is not None and name != used:
        raise ValueError(
          f"`{name}` is {getattr(self, name)}, but `power_norm` "
          f"{self.power_norm!r} does not use it"
          + (f" (it uses `{used}`)." if used else ".")
        )
    if not self.rectify and self._needs_nonnegative():
      raise ValueError(
        f"`rectify` is False, expected True for {self.power_norm}, which is not "
        "defined for negative features. Use 'asinhe' or 'sigme'."
      )
    if isinstance(self.learnable, str):
      raise ValueError(
        f"`learnable` is {self.learnable!r}, expected a tuple: ({self.learnable!r},)."
      )
    allowed = also_learnable + ((used,) if used else ())
    for name in self.learnable:
      if name not in allowed:
        raise ValueError(f"`learnable` has {name!r}, expected names among {allowed}.")

  def _needs_nonnegative(self) -> bool:
    return self.power_norm in ("gamma", "maxexp")

  def _power_norm_parameter(self) -> jax.Array | float | int:
    name, default = PARAMETERS[self.power_norm]
    value = default if getattr(self, name) is None else getattr(self, name)
    if name not in self.learnable:
      return value
    return jnp.exp(
      self.param(f"log_{name}", nn.initializers.constant(jnp.log(value)), ())
    )

  def _features(self, x: jax.Array) -> jax.Array:
    """Rectified features in float32 or better, `[B, ..., d]` as they came."""
    if x.ndim not in (3, 4, 5):
      raise ValueError(
        f"`x` has shape {x.shape}, expected a map [B, H, W, d], patches "
        "[B, P, H, W, d] or tokens [B, N, d]."
      )
    if 0 in x.shape[1:-1]:
      raise ValueError(f"`x` has shape {x.shape}, expected at least one position.")
    x = _at_least_float32(x)
    return nn.relu(x) if self.rectify else x


def _at_least_float32(x: jax.Array) -> jax.Array:
  return x if x.dtype == jnp.float64 else x.astype(jnp.float32)


class FirstOrderPooling(Pooling):
  """Average of the features, Power Normalization of its entries: `[B, d]`.

  With no Power Normalization it is the average pooling of an ordinary network.
  """

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Pools the map of a backbone."""
    self._check_power_norm()
    x = self._features(x)
    mean = jnp.mean(x, axis=tuple(range(1, x.ndim - 1)))
    if self.power_norm is None:
      return mean
    return _FIRST_ORDER[self.power_norm](mean, self._power_norm_parameter(), self.lam)


class SecondOrderPooling(Pooling):
  """Power Normalization of the co-occurrence matrix of the features, as a vector.

  Features are reduced, rectified, β-centered, and get their coordinates appended:
  φ̄ of length d' = d + 2Z. All positions of all patches of a picture make one matrix;
  coordinates are local to a patch.

  To compare with, `power_norm` may also be `"signed_sqrt"` (BCNN), `"matrix_log"`
  (log-Euclidean, of M + λI) or `"newton_schulz_sqrt"` (iSQRT-COV).

  Attributes:
    spectral: whether the Power Normalization acts on eigenvalues instead of entries.
    beta: β from 0 to 1. Element-wise Gamma and MaxExp do not take the negative
      entries that β > 0 makes.
    num_pivots: number Z of pivots per coordinate; 0 for no coordinates.
    alpha: weight α of the coordinates against the features.
    sigma: bandwidth σ of the coordinates, in units of the side of the map.
    grid: height and width of the grid that tokens come from, row by row; without
      it tokens have no coordinates.
    trace_power: γ of the trace compensation Ψ (tr M + λ)^γ, or None for none.
    kappa: κ of the residual Ψ + κM, or None for none.
    reduction: channels of a 1×1 convolution before everything else, or None.
    triangle: whether the result is the isometric upper triangle, `[B, d'(d' + 1)/2]`,
      or all of the matrix, `[B, d', d']`.
    rank: number R of learned directions p, or None. With it the result is pᵀΨp for
      each of them, `[B, R]`, and no d'×d' matrix is ever formed: a dense layer on
      top is a classifier whose weights have rank R, Σᵣ sᵣpᵣpᵣᵀ for each class. The
      Power Normalization has to be spectral, or none.

  `beta` and `alpha` may be in `learnable`. If the collection `intermediates` is
  mutable, the share of entries beyond 0.99 of their limit is stored there as
  `saturation` for MaxExp and SigmE: a large one says that η or η' is too large for
  these features. With `rank` there are no entries to report on.
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

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Pools the map of a backbone."""
    self._check_power_norm(_BASELINES, also_learnable=("beta", "alpha"))
    self._check_beta()
    self._check_sizes()
    phi = self._augmented_features(x)
    if self.rank is not None:
      return self._forms(phi)
    psi = self._power_normalize(phi)
    self._report_saturation(psi)
    return ops.triu_vectorize(psi) if self.triangle else psi

  def _augmented_features(self, x: jax.Array) -> jax.Array:
    """Features φ̄ of all positions, `[B, N, d']`."""
    if self.reduction is not None:
      x = _at_least_float32(x)
      x = nn.Dense(self.reduction, False, x.dtype, name="reduction")(x)
    x = self._features(x)
    coordinates = self._coordinates(x)
    phi = x.reshape(x.shape[0], math.prod(x.shape[1:-1]), x.shape[-1])
    phi = ops.beta_center(phi, _into_unit_interval(self._learned("beta")))
    if coordinates is None:
      return phi
    return ops.append_coordinates(phi, coordinates)

  def _needs_nonnegative(self) -> bool:
    return super()._needs_nonnegative() and not self.spectral

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
    if self.spectral and self.power_norm not in PARAMETERS:
      raise ValueError(
        f"`spectral` is True, but `power_norm` is {self.power_norm!r}, expected one of "
        f"{', '.join(map(repr, PARAMETERS))}."
      )

  def _check_sizes(self) -> None:
    for name in ("rank", "reduction"):
      size = getattr(self, name)
      if size is not None and (not isinstance(size, int) or size < 1):
        raise ValueError(
          f"`{name}` is {size}, expected a whole number of at least 1, or None."
        )
    if self.rank is None:
      return
    if self.power_norm is not None and not self.spectral:
      raise ValueError(
        f"`rank` is {self.rank}, but element-wise {self.power_norm} needs the entries "
        "of the matrix, which is never formed then. Use `spectral=True` or no "
        "`power_norm`; or keep the matrix (`rank=None`) and make it smaller by "
        "`reduction`."
      )
    if not self.triangle:
      raise ValueError(f"`rank` is {self.rank}: there is no matrix to return whole.")

  def _learned(self, name: str) -> jax.Array | float:
    value = getattr(self, name)
    if name not in self.learnable:
      return value
    return self.param(name, nn.initializers.constant(value), ())

  def _coordinates(self, x: jax.Array) -> jax.Array | None:
    """Codes of all positions, `[N, 2Z]`, those of a patch repeated for each."""
    if self.num_pivots == 0:
      return None
    if x.ndim == 3 and self.grid is None:
      raise ValueError(
        f"`x` has shape {x.shape}: tokens have no coordinates of their own. Name "
        "their `grid=(height, width)`, or set `num_pivots=0`."
      )
    if x.ndim == 3 and np.shape(self.grid) != (2,):
      raise ValueError(f"`grid` is {self.grid}, expected its height and width.")
    height, width = x.shape[-3:-1] if x.ndim > 3 else self.grid
    if x.ndim == 3 and height * width != x.shape[1]:
      raise ValueError(
        f"`x` has {x.shape[1]} tokens, but `grid` {self.grid} has {height * width}."
      )
    coordinates = ops.spatial_coordinates(
      height, width, self.num_pivots, self.sigma, self._learned("alpha")
    )
    patches = x.shape[1] if x.ndim == 5 else 1
    return jnp.tile(coordinates, (patches, 1))

  def _power_normalize(self, phi: jax.Array) -> jax.Array:
    if self.power_norm is None:
      psi = ops.cooccurrence(phi)
    elif self.power_norm in _BASELINES:
      psi = _BASELINES[self.power_norm](ops.cooccurrence(phi), self.lam)
    else:
      pools = _SPECTRAL if self.spectral else _ELEMENTWISE
      psi = pools[self.power_norm](phi, self._power_norm_parameter(), lam=self.lam)
    if self.trace_power is None and self.kappa is None:
      return psi
    m = ops.cooccurrence(phi)
    if self.trace_power is not None:
      psi = ops.trace_compensate(psi, m, self.trace_power, self.lam)
    if self.kappa is not None:
      psi = ops.add_residual(psi, m, self.kappa)
    return psi

  def _forms(self, phi: jax.Array) -> jax.Array:
    """What `_power_normalize` would return, along learned directions: `[B, R]`."""
    directions = self.param(
      "directions", nn.initializers.lecun_normal(), (phi.shape[-1], self.rank)
    )
    if self.power_norm is None:
      forms = ops.cooccurrence_forms(phi, directions)
    else:
      forms = _FORMS[self.power_norm](
        phi, directions, self._power_norm_parameter(), lam=self.lam
      )
    if self.trace_power is not None:
      trace = jnp.sum(jnp.square(phi), axis=(-2, -1)) / phi.shape[-2]
      forms = forms * ops.gamma(trace, self.trace_power, self.lam)[:, None]
    if self.kappa is not None:
      forms = forms + self.kappa * ops.cooccurrence_forms(phi, directions)
    return forms

  def _report_saturation(self, psi: jax.Array) -> None:
    bounded = self.power_norm in ("maxexp", "sigme")
    if bounded and self.is_mutable_collection("intermediates"):
      saturated = jnp.abs(psi) > _SATURATED
      self.sow("intermediates", "saturation", jnp.mean(saturated.astype(jnp.float32)))


def _into_unit_interval(beta: jax.Array | float) -> jax.Array | float:
  """Returns β clipped to 0 to 1, with the derivative of β.

  That of the clipped number is zero outside: a learned β would never come back.
  """
  return beta + lax.stop_gradient(jnp.clip(beta, 0, 1) - beta)
