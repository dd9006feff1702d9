"""Memory of a training step of ResNet-50 with second-order pooling, without a run.

  python -m benchmarks.memory

Forward, cross-entropy, backward and RMSprop on pictures of 448 × 448, computed in
bfloat16 with parameters in float32. Two figures, neither of which allocates a thing:

- counted: parameters, their gradients, the state of RMSprop, and what automatic
  differentiation keeps for the backward pass. Temporaries are not in it, nor does it
  know what a compiler keeps once instead of twice, or computes again.
- compiled: what the compiler reserves, arguments and temporaries, for a TPU v5e of
  16 GB. It needs no TPU (`JAX_PLATFORMS=cpu` keeps JAX from looking for one), but its
  compiler: `pip install 'jax[tpu]'`. Without it the step is compiled for the CPU,
  which says little about accelerators: convolutions are other ones there, and compute
  bfloat16 in float32.
"""

import argparse
import functools
import importlib.util
import os
from typing import Any

import jax
from jax.experimental import topologies
import jax.numpy as jnp

from pnjax import models

Params = Any  # A tree of arrays, or of their shapes.

_DECAY = 0.99
_EPSILON = 1e-8
_LEARNING_RATE = 1e-4

ELEMENTWISE = models.SecondOrderPooling(power_norm="sigme", num_pivots=5)
LOW_RANK = models.SecondOrderPooling(
  power_norm="sigme", spectral=True, num_pivots=5, rank=8 * 101
)

# Name: (pooling, number of classes), those of FMD and of Food-101.
HEADS = {
  "SigmE, dense, 10 classes": (ELEMENTWISE, 10),
  "SigmE, dense, 101 classes": (ELEMENTWISE, 101),
  f"spectral SigmE, rank {LOW_RANK.rank}, 101 classes": (LOW_RANK, 101),
}
PLATFORMS = {"tpu": "a TPU v5e", "cpu": "this CPU"}


def main() -> None:
  """Prints the table."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--batch", type=int, default=32)
  parser.add_argument("--size", type=int, default=448)
  args = parser.parse_args()
  print_memory(args.batch, args.size)


def print_memory(batch: int = 32, size: int = 448) -> None:
  """Prints what a training step needs with each of the heads, in GB."""
  platform = "tpu"
  if importlib.util.find_spec("libtpu") is None:
    platform = "cpu"
    print(
      "The compiler of TPUs is not installed: that of this CPU takes its place, whose "
      "temporaries are other ones (pip install 'jax[tpu]')"
    )
  print(f"Memory of a training step, batch {batch}, {size} × {size}, in GB")
  for name, (pooling, num_classes) in HEADS.items():
    backbone = models.ResNet50(dtype=jnp.bfloat16)
    model = models.Classifier(backbone, pooling, num_classes)
    print(f"{name}:")
    counted = count(model, batch, size)
    for what, num_bytes in (counted | {"counted": sum(counted.values())}).items():
      print(f"  {what:32}{num_bytes / 1e9:8.2f}", flush=True)
    num_bytes = compiled(model, batch, size, platform)
    print(f"  compiled for {PLATFORMS[platform]:19}{num_bytes / 1e9:8.2f}", flush=True)


def count(model: models.Classifier, batch: int, size: int) -> dict[str, int]:
  """Returns the bytes of all that lives when the backward pass begins."""
  params, _, batch_stats, images, labels = arguments(model, batch, size)

  def kept(params, batch_stats, images, labels):
    return jax.vjp(lambda p: loss(model, p, batch_stats, images, labels), params)[1]

  residuals = jax.eval_shape(kept, params, batch_stats, images, labels)
  # Parameters are among them, and counted already.
  of_params = {(p.shape, p.dtype) for p in jax.tree.leaves(params)}
  residuals = [
    r for r in jax.tree.leaves(residuals) if (r.shape, r.dtype) not in of_params
  ]
  return {
    "parameters": _bytes(params),
    "gradients": _bytes(params),
    "state of RMSprop": _bytes(params),
    "pictures": _bytes(images),
    "kept for the backward pass": _bytes(residuals),
  }


def compiled(model: models.Classifier, batch: int, size: int, platform: str) -> int:
  """Returns the bytes that a compiler reserves: arguments and temporaries."""
  shapes = arguments(model, batch, size)
  if platform == "tpu":
    sharding = jax.sharding.SingleDeviceSharding(_absent_tpu())
    shapes = jax.tree.map(lambda s: s.update(sharding=sharding), shapes)
  step = jax.jit(functools.partial(training_step, model), donate_argnums=(0, 1))
  lowered = step.trace(*shapes).lower(lowering_platforms=(platform,))
  stats = lowered.compile().memory_analysis()
  results = stats.output_size_in_bytes - stats.alias_size_in_bytes
  return stats.argument_size_in_bytes + stats.temp_size_in_bytes + results


def arguments(
  model: models.Classifier, batch: int, size: int
) -> tuple[Params, Params, Params, jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
  """Returns the shapes of the arguments of `training_step`."""
  images = jax.ShapeDtypeStruct((batch, size, size, 3), jnp.float32)
  labels = jax.ShapeDtypeStruct((batch,), jnp.int32)
  variables = jax.eval_shape(model.init, jax.random.key(0), images)
  params = variables["params"]
  return params, params, variables["batch_stats"], images, labels


def training_step(
  model: models.Classifier,
  params: Params,
  squares: Params,
  batch_stats: Params,
  images: jax.Array,
  labels: jax.Array,
) -> tuple[Params, Params]:
  """One step of RMSprop, as in the paper; `squares` are its running averages."""
  grads = jax.grad(functools.partial(loss, model))(params, batch_stats, images, labels)
  squares = jax.tree.map(
    lambda s, g: _DECAY * s + (1 - _DECAY) * jnp.square(g), squares, grads
  )
  params = jax.tree.map(
    lambda p, g, s: p - _LEARNING_RATE * g * jax.lax.rsqrt(s + _EPSILON),
    params,
    grads,
    squares,
  )
  return params, squares


def loss(
  model: models.Classifier,
  params: Params,
  batch_stats: Params,
  images: jax.Array,
  labels: jax.Array,
) -> jax.Array:
  """Mean cross-entropy."""
  variables = {"params": params, "batch_stats": batch_stats}
  logits = model.apply(variables, images, train=True)
  chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
  return -jnp.mean(chosen)


def _absent_tpu() -> jax.Device:
  # Of a machine that is not there nobody can ask what it is.
  os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
  os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-4")
  os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
  topology = topologies.get_topology_desc(platform="tpu", topology_name="v5e:2x2")
  return topology.devices[0]


def _bytes(tree: Params) -> int:
  return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


if __name__ == "__main__":
  main()
