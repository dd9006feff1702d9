"""The table of Power Normalizations, for code that looks one up by its name."""

from collections.abc import Callable
import dataclasses

import jax

from pnjax.ops import _cooccurrence
from pnjax.ops import _elementwise
from pnjax.ops import _elementwise_pool
from pnjax.ops import _forms
from pnjax.ops import _spectral_pool

Form = Callable[..., jax.Array]


@dataclasses.dataclass(frozen=True)
class PowerNorm:
  """A Power Normalization: its parameter, its domain and its forms.

  All forms have one signature: the arrays, the parameter, and `lam`, which a form
  accepts even if it has no use for it. A function that lacks a form refuses the
  settings that need it.

  >>> POWER_NORMS["sigme"].parameter
  'eta_prime'

  Attributes:
    default: Value of the parameter if none is given.
    matrix: `matrix(m, parameter, lam=1e-6)`, the function of every entry of `m`.
    pool: `pool(phi, parameter, lam=1e-6)`, the same straight from features;
      `matrix(cooccurrence(phi), ...)` if None.
    spectral: `spectral(phi, parameter, lam=1e-6)`, the function of the eigenvalues of
      the co-occurrence matrix, straight from features.
    forms: `forms(phi, directions, parameter, lam=1e-6)`, the quadratic forms of
      `spectral` along directions.
    first_order: `first_order(mean, parameter, lam=1e-6)`, the function of every entry
      of a mean vector.
    parameter: Name of the parameter: the name of the field that holds it in the
      pooling layers and in configs. A function of your own takes the field
      `parameter`.
    has_suggestion: Whether `suggest_parameters` suggests a value for the parameter.
    needs_nonnegative: Whether entries have to be non-negative, which rules out
      β-centering. Eigenvalues always are.
    bounded: Whether values saturate at ±1.
  """

  default: float | int
  matrix: Form
  pool: Form | None = None
  spectral: Form | None = None
  forms: Form | None = None
  first_order: Form | None = None
  parameter: str = "parameter"
  has_suggestion: bool = False
  needs_nonnegative: bool = False
  bounded: bool = False

  def __post_init__(self):
    if self.pool is None:
      object.__setattr__(self, "pool", self._pool_of_matrix)

  def _pool_of_matrix(self, phi, parameter, lam=1e-6):
    return self.matrix(_cooccurrence.cooccurrence(phi), parameter, lam)


POWER_NORMS: dict[str, PowerNorm] = {
  "gamma": PowerNorm(
    parameter="power",
    default=0.5,
    needs_nonnegative=True,
    matrix=_elementwise.gamma,
    pool=_elementwise_pool.gamma_pool,
    spectral=lambda phi, power, lam=1e-6: _spectral_pool.spectral_gamma_pool(
      phi, power
    ),
    forms=lambda phi, directions, power, lam=1e-6: _forms.spectral_gamma_forms(
      phi, directions, power
    ),
    first_order=_elementwise.gamma,
  ),
  "maxexp": PowerNorm(
    parameter="eta",
    default=20,
    has_suggestion=True,
    needs_nonnegative=True,
    bounded=True,
    matrix=_elementwise.maxexp,
    pool=_elementwise_pool.maxexp_pool,
    spectral=_spectral_pool.spectral_maxexp_pool,
    forms=_forms.spectral_maxexp_forms,
    first_order=_elementwise.first_order_maxexp,
  ),
  "asinhe": PowerNorm(
    parameter="gamma_prime",
    default=1e3,
    has_suggestion=True,
    matrix=lambda m, gamma_prime, lam=1e-6: _elementwise.asinhe(m, gamma_prime),
    pool=lambda phi, gamma_prime, lam=1e-6: _elementwise_pool.asinhe_pool(
      phi, gamma_prime
    ),
    spectral=lambda phi, gamma_prime, lam=1e-6: _spectral_pool.spectral_asinhe_pool(
      phi, gamma_prime
    ),
    forms=lambda phi, directions, gamma_prime, lam=1e-6: _forms.spectral_asinhe_forms(
      phi, directions, gamma_prime
    ),
    first_order=lambda mean, gamma_prime, lam=1e-6: _elementwise.asinhe(
      mean, gamma_prime
    ),
  ),
  "sigme": PowerNorm(
    parameter="eta_prime",
    default=1e3,
    has_suggestion=True,
    bounded=True,
    matrix=_elementwise.sigme,
    pool=_elementwise_pool.sigme_pool,
    spectral=_spectral_pool.spectral_sigme_pool,
    forms=_forms.spectral_sigme_forms,
    first_order=lambda mean, eta_prime, lam=1e-6: _elementwise.sigme(
      mean, eta_prime, trace_normalize=False
    ),
  ),
}
