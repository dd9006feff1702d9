"""Pooling layers and feature maps that the tests share."""

from collections.abc import Callable

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from pnjax import models
from pnjax import ops

# Attributes of second-order pooling that can be combined with `rank`.
LOW_RANK = {
  "sop": {},
  **{name: {"power_norm": name, "spectral": True} for name in ops.POWER_NORMS},
  "everything": {
    "power_norm": "sigme",
    "spectral": True,
    "eta_prime": 9.0,
    "beta": 0.4,
    "num_pivots": 3,
    "trace_power": 0.5,
    "kappa": 0.1,
    "reduction": 4,
    "learnable": ("eta_prime", "beta", "alpha"),
  },
}

POOLINGS = {
  "baseline": models.FirstOrderPooling(),
  "fop_asinhe": models.FirstOrderPooling(power_norm="asinhe"),
  "sop": models.SecondOrderPooling(),
  **{
    f"sop_sc_{name}": models.SecondOrderPooling(power_norm=name, num_pivots=3)
    for name in ops.POWER_NORMS
  },
  **{
    f"sop_sc_spec_{name}": models.SecondOrderPooling(
      power_norm=name, spectral=True, num_pivots=3
    )
    for name in ops.POWER_NORMS
  },
  "low_rank_sop": models.SecondOrderPooling(rank=5),
  "low_rank_everything": models.SecondOrderPooling(**LOW_RANK["everything"], rank=5),
}


def feature_maps(rng: np.random.Generator, *shape: int) -> jax.Array:
  """Returns random features, not rectified."""
  return jnp.asarray(rng.standard_normal(shape), jnp.float32)


def pool_and_compare(
  layer: nn.Module,
  reference: Callable[[jax.Array], jax.Array],
  x: jax.Array,
  rtol: float = 1e-4,
  atol: float = 1e-6,
) -> None:
  """Asserts that a layer without parameters equals a reference."""

  @jax.jit  # One program compiles faster than two.
  def both(x):
    return layer.apply({}, x), reference(x)

  actual, expected = both(x)
  np.testing.assert_allclose(actual, expected, rtol=rtol, atol=atol)


def pool(layer: nn.Module, x: jax.Array) -> jax.Array:
  """Returns the output of a layer that has just been initialized."""
  return jax.jit(lambda x: layer.init_with_output(jax.random.key(0), x)[0])(x)
