"""Memory of a training step of ResNet-50 with second-order pooling, without a run.

  export JAX_PLATFORMS=cpu
  python -m benchmarks.memory > benchmarks/results/memory.md

What it prints is a page in Markdown. The step is `pnjax.train.train_step` with the
optimizer of the default config, RMSprop, on images of 448 × 448. The backbone computes
in bfloat16; parameters are float32. There are two figures, neither of which allocates
any arrays:

- counted: parameters, their gradients, the state of the optimizer, and the arrays that
  the forward pass keeps for the backward pass. Temporaries are not included, and a
  compiler may recompute some of the arrays instead of keeping them.
- compiled: arguments and temporaries that the compiler reserves for a TPU v5e, which
  has 16 GB. That requires no TPU (`JAX_PLATFORMS=cpu` keeps JAX from looking for one),
  only its compiler: `pip install 'jax[tpu]'`. Without it, there is no such figure.
"""

import argparse
from collections.abc import Mapping
import functools
from typing import Any

import jax
from jax.extend import core
import jax.numpy as jnp
import ml_collections

from benchmarks import absent_tpus
from experiments import cli
from pnjax import config as config_lib
from pnjax import models
from pnjax import pretrained
from pnjax import train

_LOW_RANK = 8 * 101

# Number of classes and fields of the config by name. FMD has 10 classes, Food-101 101.
CASES: dict[str, tuple[int, dict[str, Any]]] = {
  "SigmE, dense, 10 classes": (10, {}),
  "SigmE, dense, 101 classes": (101, {}),
  f"spectral SigmE, rank {_LOW_RANK}, 101 classes": (
    101,
    {"pooling.spectral": True, "classifier.rank": _LOW_RANK},
  ),
}


def main() -> None:
  """Print the page."""
  parser = argparse.ArgumentParser(
    prog="python -m benchmarks.memory",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument("--batch", type=int, default=32)
  parser.add_argument("--size", type=int, default=448)
  args = parser.parse_args()
  print("# Memory of a training step\n")
  print(
    f"ResNet-50 with second-order pooling on {args.batch} images of {args.size} × "
    f"{args.size}, RMSprop on all layers; the backbone computes in bfloat16, "
    f"parameters are float32; jax {jax.__version__}, nothing was run:"
  )
  print(f"\n```sh\nJAX_PLATFORMS=cpu {cli.command_line('benchmarks.memory')}\n```\n")
  print_memory(args.batch, args.size)


def print_memory(batch: int, size: int) -> None:
  """Print a table of the memory of a training step, with a column for each case.

  Args:
    batch: Number of images.
    size: Height and width of the images.
  """
  columns = [_figures(*case, batch, size) for case in CASES.values()]
  print(f"| GB | {' | '.join(CASES)} |")
  print(f"|---|{'---:|' * len(CASES)}")
  for what in columns[0]:
    cells = [f"{column[what] / 1e9:.2f}" for column in columns]
    print(f"| {what} | {' | '.join(cells)} |")


def _figures(
  num_classes: int, fields: Mapping[str, Any], batch: int, size: int
) -> dict[str, int]:
  """Return the bytes of a case, counted and, if it is possible, compiled."""
  config = config_lib.get_config()
  config.backbone.dtype = "bfloat16"
  config.pooling.update({"power_norm": "sigme", "num_pivots": 5})
  config.update_from_flattened_dict(fields)
  task = make_task(config, num_classes)
  counted = count(task, batch, size)
  figures = counted | {"**counted, in all**": sum(counted.values())}
  if absent_tpus.has_compiler():
    name = f"**compiled for a {absent_tpus.NAME}, which has 16 GB**"
    figures[name] = compiled(task, batch, size, "tpu")
  return figures


def make_task(config: ml_collections.ConfigDict, num_classes: int) -> train.Task:
  """Return the network of a config, untrained, with its optimizer.

  Args:
    config: Run config.
    num_classes: Number of classes.
  """
  backbone = pretrained.untrained_backbone(config.backbone)
  # Memory does not depend on their values.
  suggested = dict.fromkeys(models.missing_parameters(config), 1.0)
  schedule = train.learning_rate(
    config.optim, steps_per_epoch=1, num_epochs=config.train.num_epochs
  )
  return train.Task(
    model=models.image_classifier_from_config(
      config, backbone.model, num_classes, suggested
    ),
    preprocess=backbone.preprocess,
    optimizer=train.make_optimizer(config, schedule),
  )


def count(task: train.Task, batch: int, size: int) -> dict[str, int]:
  """Return the bytes of all arrays that exist when the backward pass begins.

  Gradients are included, although they are computed later.

  Args:
    task: Network and optimizer.
    batch: Number of images.
    size: Height and width of the images.
  """
  state, examples = arguments(task, batch, size)
  step = jax.make_jaxpr(functools.partial(training_step, task))(state, examples)
  return {
    "parameters": _bytes(state.trainable),
    "gradients": _bytes(state.trainable),
    "optimizer state": _bytes(state.opt_state),
    "images": _bytes(examples["image"]),
    "kept for the backward pass": _bytes(_kept_for_backward(step.jaxpr)),
  }


def compiled(task: train.Task, batch: int, size: int, platform: str) -> int:
  """Return the bytes that a compiler reserves for arguments and temporaries.

  Args:
    task: Network and optimizer.
    batch: Number of images.
    size: Height and width of the images.
    platform: "tpu" for a TPU that is not here, or "cpu" for this machine.
  """
  shapes = arguments(task, batch, size)
  if platform == "tpu":
    sharding = jax.sharding.SingleDeviceSharding(*absent_tpus.devices(1))
    shapes = jax.tree.map(lambda s: s.update(sharding=sharding), shapes)
  step = jax.jit(functools.partial(training_step, task), donate_argnums=0)
  lowered = step.trace(*shapes).lower(lowering_platforms=(platform,))
  return reserved_bytes(lowered.compile().memory_analysis())


def reserved_bytes(stats: Any) -> int:
  """Return the bytes of arguments, results and temporaries of a program.

  Args:
    stats: Its `memory_analysis()`.
  """
  results = stats.output_size_in_bytes - stats.alias_size_in_bytes
  return stats.argument_size_in_bytes + stats.temp_size_in_bytes + results


def arguments(
  task: train.Task, batch: int, size: int
) -> tuple[train.TrainState, dict[str, jax.ShapeDtypeStruct]]:
  """Return the shapes of the arguments of `training_step`; all parameters train.

  Args:
    task: Network and optimizer.
    batch: Number of images.
    size: Height and width of the images.
  """

  def init():
    variables = task.model.init(jax.random.key(0), jnp.zeros((1, size, size, 3)))
    is_trainable = dict.fromkeys(train.parameter_paths(variables), True)
    return train.create_state(variables, is_trainable, task.optimizer, seed=0)

  examples = {
    "image": jax.ShapeDtypeStruct((batch, size, size, 3), jnp.uint8),
    "label": jax.ShapeDtypeStruct((batch,), jnp.int32),
    "mask": jax.ShapeDtypeStruct((batch,), jnp.bool),
  }
  return jax.eval_shape(init), examples


def training_step(
  task: train.Task, state: train.TrainState, examples: Mapping[str, jax.Array]
) -> tuple[train.TrainState, dict[str, jax.Array]]:
  """Take a step of training on one device.

  Args:
    task: Network and optimizer.
    state: State before the step.
    examples: As in `pnjax.train.train_step`.
  """
  return train.train_step(task, state, examples, psum=lambda tree: tree)


def _kept_for_backward(jaxpr: core.Jaxpr) -> list[jax.core.ShapedArray]:
  """Return the arrays that forward equations make and backward ones read."""
  forward, kept = set(), {}
  for equation in jaxpr.eqns:
    # JAX notes in the name stack of an equation which transformations it is from.
    if "transpose(" in str(equation.source_info.name_stack):
      variables = [v for v in equation.invars if not isinstance(v, core.Literal)]
      kept |= {v: v.aval for v in variables if v in forward}
    else:
      forward.update(equation.outvars)
  return list(kept.values())


def _bytes(tree: Any) -> int:
  return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


if __name__ == "__main__":
  main()
