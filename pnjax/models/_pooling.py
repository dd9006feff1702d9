"""First-order pooling, and the fields that it shares with second-order pooling.

Pooling layers accept the feature map of any backbone, `[B, H, W, d]`; the feature maps
of P patches of each image, `[B, P, H, W, d]`; or the tokens of a transformer,
`[B, N, d]`.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from typing import TYPE_CHECKING

from flax import linen as nn
import jax
import jax.numpy as jnp

from pnjax import ops

if TYPE_CHECKING:
  from jaxtyping import Array
  from jaxtyping import Float

# The fields that hold the parameter of a Power Normalization.
PARAMETER_FIELDS = ("power", "eta", "gamma_prime", "eta_prime", "parameter")


class Pooling(nn.Module):
  """Base of the pooling layers: rectification and the parameter of the function.

  Attributes:
    power_norm: Name of a function in `pnjax.ops.POWER_NORMS`, or None for the plain
      average.
    power: γ of Gamma, 0.5 if None. Only the parameter of the function in use may be
      given.
    eta: η of MaxExp, 20 if None. A Python integer makes the spectral form faster.
    gamma_prime: γ' of AsinhE, 1e3 if None.
    eta_prime: η' of SigmE, 1e3 if None.
    parameter: Parameter of a function that you added to `POWER_NORMS`.
    lam: λ of Gamma, and of the trace in MaxExp and SigmE.
    rectify: Whether features are rectified first.
    learnable: Names of the parameters above (and of those that a subclass adds) that
      are learned, starting from their values. Parameters of Power Normalizations are
      stored as logarithms, which keeps them positive.
  """

  power_norm: str | None = None
  power: float | None = None
  eta: float | int | None = None
  gamma_prime: float | None = None
  eta_prime: float | None = None
  parameter: float | int | None = None
  lam: float = 1e-6
  rectify: bool = True
  learnable: tuple[str, ...] = ()

  @property
  def norm(self) -> ops.PowerNorm | None:
    """The Power Normalization in use; None for the average and for baselines."""
    return None if self.power_norm is None else ops.POWER_NORMS.get(self.power_norm)

  def _check_power_norm(
    self, baselines: Iterable[str] = (), also_learnable: tuple[str, ...] = ()
  ) -> None:
    known = (*ops.POWER_NORMS, *baselines)
    if self.power_norm is not None and self.power_norm not in known:
      raise ValueError(
        f"`power_norm` is {self.power_norm!r}, expected None or one of "
        f"{', '.join(map(repr, known))}; with `spectral`, these act on eigenvalues. A "
        "function of your own has to be added to `pnjax.ops.POWER_NORMS` first, from "
        "Python."
      )
    used = self.norm.parameter if self.norm else None
    if used and used not in PARAMETER_FIELDS:
      raise ValueError(
        f"the parameter of {self.power_norm!r} is called {used!r}, expected one of "
        f"{', '.join(PARAMETER_FIELDS)}."
      )
    for name in PARAMETER_FIELDS:
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
    return self.norm is not None and self.norm.needs_nonnegative

  def _form(self, name: str) -> Callable[..., jax.Array]:
    """Return a form of the Power Normalization, which must have it."""
    form = getattr(self.norm, name)
    if form is None:
      raise ValueError(
        f"`power_norm` is {self.power_norm!r}, whose record in `POWER_NORMS` has no "
        f"`{name}`."
      )
    return form

  def _power_norm_parameter(self) -> jax.Array | float | int:
    """Return the parameter of the Power Normalization, learned or constant."""
    norm = self.norm
    assert norm is not None
    value = getattr(self, norm.parameter)
    value = norm.default if value is None else value
    if norm.parameter not in self.learnable:
      return value
    if not value > 0:
      raise ValueError(
        f"`{norm.parameter}` is {value}, expected more than 0 where it is learned."
      )
    return jnp.exp(
      self.param(f"log_{norm.parameter}", nn.initializers.constant(jnp.log(value)), ())
    )

  def _features(self, x: jax.Array) -> jax.Array:
    """Return rectified features in float32 or better, in the shape of `x`."""
    if x.ndim not in (3, 4, 5):
      raise ValueError(
        f"`x` has shape {x.shape}, expected a feature map [B, H, W, d], patches "
        "[B, P, H, W, d] or tokens [B, N, d]."
      )
    if 0 in x.shape[1:-1]:
      raise ValueError(f"`x` has shape {x.shape}, expected at least one position.")
    x = at_least_float32(x)
    return nn.relu(x) if self.rectify else x


class FirstOrderPooling(Pooling):
  """Average of the features, with a Power Normalization of its entries.

  Without a Power Normalization it is the average pooling of an ordinary network.
  """

  @nn.compact
  def __call__(self, x: Float[Array, "B *positions d"]) -> Float[Array, "B d"]:
    """Pools the feature map of a backbone."""
    self._check_power_norm()
    x = self._features(x)
    mean = jnp.mean(x, axis=tuple(range(1, x.ndim - 1)))
    if self.power_norm is None:
      return mean
    return self._form("first_order")(mean, self._power_norm_parameter(), lam=self.lam)


def at_least_float32(x: jax.Array) -> jax.Array:
  """Return half precision as float32."""
  return x if x.dtype == jnp.float64 else x.astype(jnp.float32)
