"""Pooling layers from `config.head`."""

from collections.abc import Mapping

from flax import linen as nn
import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from pnjax import models
from pnjax import ops

# Pictures from whose features missing parameters are suggested, at most.
_NUM_PICTURES = 32

_SHARED = (
  "power_norm",
  "power",
  "eta",
  "gamma_prime",
  "eta_prime",
  "lam",
  "rectify",
  "learnable",
)
_SECOND_ORDER = (
  "spectral",
  "beta",
  "num_pivots",
  "alpha",
  "sigma",
  "trace_power",
  "kappa",
  "reduction",
  "rank",
)


def pooling(
  head: ml_collections.ConfigDict, suggested: Mapping[str, float]
) -> nn.Module:
  """Returns the pooling layer of a config.

  Args:
    head: `config.head`.
    suggested: values of the fields that `missing` names.
  """
  values = {name: head[name] for name in _SHARED + _SECOND_ORDER} | suggested
  values["learnable"] = tuple(values["learnable"])
  if values["eta"] is not None and float(values["eta"]).is_integer():
    values["eta"] = int(values["eta"])  # Needs matrix products only.
  if head.order == 1:
    return models.FirstOrderPooling(**{name: values[name] for name in _SHARED})
  if values["alpha"] is None:
    del values["alpha"]
  return models.SecondOrderPooling(**values)


def check(head: ml_collections.ConfigDict) -> None:
  """Raises ValueError where the fields of `config.head` do not go together."""
  if head.order not in (1, 2):
    raise ValueError(f"head.order is {head.order}, expected 1 or 2.")
  set_for_second = [
    name
    for name in ("spectral", "beta", "num_pivots", "reduction", "rank")
    if head[name]
  ]
  if head.order == 1 and set_for_second:
    raise ValueError(
      f"head.{set_for_second[0]} is {head[set_for_second[0]]}, but head.order is 1, "
      "which does not use it."
    )
  if head.reduction and missing(head):
    raise ValueError(
      f"head.{missing(head)[0]} is None, expected a number: suggestions are for "
      f"features as they are, but head.reduction is {head.reduction}."
    )
  placeholders = {name: 1.0 for name in missing(head)}
  layer = pooling(head, placeholders)
  # All of it is abstract, so that nothing is compiled, not even the key.
  jax.eval_shape(lambda: layer.init(jax.random.key(0), jnp.zeros((1, 2, 2, 4))))


def missing(head: ml_collections.ConfigDict) -> list[str]:
  """Returns the fields that are to be suggested from features."""
  names = []
  if head.power_norm in ("maxexp", "asinhe", "sigme"):
    name, _ = models.pooling.PARAMETERS[head.power_norm]
    names.append(name)
  if head.order == 2 and head.num_pivots:
    names.append("alpha")
  return [name for name in names if head[name] is None]


def spread_over(count: int) -> np.ndarray:
  """Returns which of so many pictures parameters are suggested from."""
  return np.linspace(0, count - 1, min(_NUM_PICTURES, count), dtype=int)


def suggest(head: ml_collections.ConfigDict, maps: jax.Array) -> dict[str, float]:
  """Suggests the missing fields.

  Args:
    head: `config.head`.
    maps: of the backbone for some pictures, `[B, ..., d]`.
  """
  phi = maps.reshape(maps.shape[0], -1, maps.shape[-1]).astype(jnp.float32)
  phi = nn.relu(phi) if head.rectify else phi
  if head.order == 1:
    # An average is as wide as the features of one vector per picture.
    phi = jnp.mean(phi, axis=1, keepdims=True)
    values = ops.suggest_first_order_parameters(phi[:, 0])
  else:
    values = ops.suggest_parameters(ops.beta_center(phi, head.beta))
    if head.power_norm == "maxexp" and not head.spectral:
      values["eta"] = values["eta_prime"] / 2
  values["eta"] = jnp.round(values["eta"])
  return {name: float(values[name]) for name in missing(head)}
