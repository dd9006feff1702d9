"""The training step, compiled for TPUs that are not here.

  export JAX_PLATFORMS=cpu
  python -m benchmarks.accelerators > benchmarks/results/accelerators.md

It needs the compiler, `pip install 'jax[tpu]'`, but no TPU; nothing runs. The step is
that of a run, on one chip and on eight: ResNet-50 on images of 448 × 448, in bfloat16,
with RMSprop on all layers. What it prints is a page in Markdown. For each way to pool,
and for each route of a spectral function, there are these columns, all of one chip:
bytes of arguments and temporaries; billions of floating-point operations; the share of
the pooling layer, forward and backward, in these operations and in the bytes that are
read and written; what chips send each other; and the seconds of the compilation.
"""

import argparse
from collections.abc import Mapping
from collections.abc import Sequence
import dataclasses
import functools
import math
import re
import time
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks import absent_tpus
from benchmarks import memory
from experiments import cli
from experiments.configs import methods
from pnjax import config as config_lib
from pnjax import ops
from pnjax import runtime
from pnjax import train

_COLLECTIVES = re.compile(
  r"= (?P<shapes>.*?) (?P<name>all-reduce|all-gather|reduce-scatter|all-to-all|"
  r"collective-permute)(?:-start)?\("
)
_ARRAY = re.compile(r"(?P<kind>pred|bf16|[fsu]\d+)\[(?P<shape>[\d,]*)\]")


@dataclasses.dataclass(frozen=True)
class Workload:
  """What is trained.

  Attributes:
    backbone: Name of the backbone.
    batch: Number of images, over all chips.
    size: Height and width of the images.
    num_classes: Number of classes.
  """

  backbone: str = "resnet50"
  batch: int = 32
  size: int = 448
  num_classes: int = 10


@dataclasses.dataclass(frozen=True)
class Case:
  """A way to pool.

  Attributes:
    method: Name of the method, as in configs.
    fields: Other fields of the config.
    route: Route of the spectral function, or None for an element-wise one.
  """

  method: str
  fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  route: str | None = None


CASES = {
  "SigmE": Case("sop_sc_sigme"),
  "SigmE, backbone.remat": Case("sop_sc_sigme", {"backbone.remat": True}),
  **{
    f"spectral {title}, {route}": Case(method, fields, route)
    for title, method, fields in (
      ("MaxExp", "sop_sc_spec_maxexp", {"pooling.eta": 20.0}),
      ("SigmE", "sop_sc_spec_sigme", {"pooling.eta_prime": 1e3}),
    )
    for route in ("matmul", "gram")
  },
}


@dataclasses.dataclass(frozen=True)
class Program:
  """What a compiler says of a program for one chip.

  Attributes:
    num_bytes: Bytes of arguments, results and temporaries.
    flops: Floating-point operations.
    traffic: Bytes that are read and written.
    collectives: Number and bytes of the collectives, by name.
    seconds: Duration of the compilation.
  """

  num_bytes: int
  flops: float
  traffic: float
  collectives: dict[str, tuple[int, int]]
  seconds: float


def main() -> int:
  """Print the page, and return the exit status."""
  args = _parse()
  if not absent_tpus.has_compiler():
    return cli.fail("the TPU compiler is not installed: pip install 'jax[tpu]'.")
  workload = Workload(args.backbone, args.batch, args.size, args.num_classes)
  try:
    chips = {count: absent_tpus.devices(count) for count in args.chips}
  except ValueError as error:
    return cli.fail(error)
  print(f"# The training step on a {absent_tpus.NAME}\n")
  print(
    f"{workload.backbone} on {workload.batch} images of {workload.size} × "
    f"{workload.size}, bfloat16, RMSprop on all layers, {workload.num_classes} "
    f"classes; compiled by libtpu {absent_tpus.compiler_version()}, jax "
    f"{jax.__version__}, not run:"
  )
  print(
    f"\n```sh\nJAX_PLATFORMS=cpu {cli.command_line('benchmarks.accelerators')}\n```"
  )
  for count, devices in chips.items():
    plural = "s" if count > 1 else ""
    print(f"\n## {count} chip{plural}, {workload.batch // count} images each\n")
    print(
      f"| pooling | GB | fits {absent_tpus.GIGABYTES} GB | GFLOP | pooling, share of "
      "FLOP | pooling, share of bytes moved | collectives | compiled in, s |"
    )
    print("|---|---:|---|---:|---:|---:|---|---:|")
    for name, case in CASES.items():
      print(_row(name, case, workload, devices), flush=True)
  print(
    "\nThe operations of a decomposition are a loop, whose body the compiler counts "
    "once, so the shares of `gram` are lower bounds."
  )
  return 0


def _parse() -> argparse.Namespace:
  parser = argparse.ArgumentParser(
    prog="python -m benchmarks.accelerators",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument("--backbone", default=Workload.backbone)
  parser.add_argument("--batch", type=int, default=Workload.batch)
  parser.add_argument("--size", type=int, default=Workload.size)
  parser.add_argument("--num_classes", type=int, default=Workload.num_classes)
  parser.add_argument("--chips", type=int, nargs="+", default=[1, 8])
  return parser.parse_args()


def _row(
  name: str, case: Case, workload: Workload, devices: Sequence[jax.Device]
) -> str:
  task = make_task(case, workload)
  try:
    step = compiled_step(task, workload, devices)
  except jax.errors.JaxRuntimeError as error:  # The compiler knows the limit.
    if "RESOURCE_EXHAUSTED" not in str(error):
      raise
    return f"| {name} | – | no | – | – | – | – | – |"
  pooling = compiled_pooling(task, workload, devices)
  gigabytes = step.num_bytes / 1e9
  collectives = "; ".join(
    f"{count} {name}, {size / 1e6:.1f} MB"
    for name, (count, size) in step.collectives.items()
  )
  cells = (
    name,
    f"{gigabytes:.2f}",
    "yes",
    f"{step.flops / 1e9:.0f}",
    f"{pooling.flops / step.flops:.1%}",
    f"{pooling.traffic / step.traffic:.1%}",
    collectives or "–",
    f"{step.seconds:.0f}",
  )
  return f"| {' | '.join(cells)} |"


def make_task(case: Case, workload: Workload) -> train.Task:
  """Return the network of a case with its optimizer.

  Args:
    case: The way to pool.
    workload: What is trained.
  """
  config = config_lib.get_config()
  methods.apply(config, case.method)
  config.backbone.name = workload.backbone
  config.backbone.dtype = "bfloat16"
  config.update_from_flattened_dict(case.fields)
  if case.route is not None:
    name = config.pooling.power_norm
    config.pooling.power_norm = _add_route(name, case.route)
  return memory.make_task(config, workload.num_classes)


def _add_route(name: str, route: str) -> str:
  """Add a Power Normalization that takes one route, and return its name."""
  norm = ops.POWER_NORMS[name]
  added = f"{name}_{route}"
  ops.POWER_NORMS[added] = dataclasses.replace(
    norm, spectral=functools.partial(norm.spectral, route=route)
  )
  return added


def compiled_step(
  task: train.Task, workload: Workload, devices: Sequence[jax.Device]
) -> Program:
  """Compiles a step of training as a run does.

  Args:
    task: Network and optimizer.
    workload: What is trained.
    devices: Devices that share the batch.
  """
  state, examples = memory.arguments(task, workload.batch, workload.size)
  step = functools.partial(train.train_step, task)
  return _compile(step, (state, _shards(examples, len(devices))), devices, donate=True)


def compiled_pooling(
  task: train.Task, workload: Workload, devices: Sequence[jax.Device]
) -> Program:
  """Compiles the pooling layer alone, forward and backward.

  Args:
    task: Network and optimizer.
    workload: What is trained.
    devices: Devices that share the batch.
  """
  state, examples = memory.arguments(task, workload.batch, workload.size)

  def features(state, examples):
    x = task.preprocess(examples["image"])
    return task.model.apply(state.variables, x, method="features")

  def pool(carry, batch, psum):
    del psum
    vectors, vjp = jax.vjp(
      lambda x: task.model.apply({}, x, method="pool"), batch["features"]
    )
    return carry, vjp(vectors)[0]  # A cotangent of the right shape.

  batch = {"features": jax.eval_shape(features, state, examples)}
  carry = jax.ShapeDtypeStruct((), jnp.float32)
  return _compile(pool, (carry, _shards(batch, len(devices))), devices, donate=False)


def _shards(batch: Any, count: int) -> Any:
  """Return the shapes `[count, b/count, ...]` of a batch that devices share."""
  return jax.tree.map(
    lambda x: jax.ShapeDtypeStruct((count, x.shape[0] // count, *x.shape[1:]), x.dtype),
    batch,
  )


def _compile(step, shapes, devices: Sequence[jax.Device], donate: bool) -> Program:
  start = time.perf_counter()
  step = runtime.Devices(devices).parallelize(step, donate=donate)
  program = step.lower(*shapes).compile()
  seconds = time.perf_counter() - start
  stats, costs = program.memory_analysis(), program.cost_analysis()
  return Program(
    num_bytes=memory.reserved_bytes(stats),
    flops=costs["flops"],
    traffic=costs["bytes accessed"],
    collectives=collectives(program.as_text()),
    seconds=seconds,
  )


def collectives(text: str) -> dict[str, tuple[int, int]]:
  """Return the number and the bytes of the collectives in a compiled program.

  >>> collectives("%x = (f32[64]{0}, bf16[2,3]{1,0}) all-reduce(%a, %b), channel_id=1")
  {'all-reduce': (1, 268)}

  Args:
    text: The program.
  """
  found: dict[str, tuple[int, int]] = {}
  for match in _COLLECTIVES.finditer(text):
    count, size = found.get(match["name"], (0, 0))
    found[match["name"]] = count + 1, size + _bytes_of_shapes(match["shapes"])
  return found


def _bytes_of_shapes(shapes: str) -> int:
  total = 0
  for array in _ARRAY.finditer(shapes):
    bits = 8 if array["kind"] == "pred" else int(re.sub(r"\D", "", array["kind"]))
    total += bits // 8 * math.prod(map(int, filter(None, array["shape"].split(","))))
  return total


if __name__ == "__main__":
  cli.run_plain(main)
