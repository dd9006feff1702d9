"""Speed of ResNet-50 against PyTorch on the same machine in one run.

  python -m benchmarks.backbone > benchmarks/results/backbone.md

What it prints is a page in Markdown. Both frameworks take turns at a training step and
at an evaluation step. The training step is not that of `pnjax.train` but the simplest
that both frameworks share: forward, cross-entropy, backward and plain SGD, with fixed
batch norm as in fine-tuning. Single convolutions follow. PyTorch runs channels-last.
`--devices=2` splits the CPU into two devices, each with half of the batch, as
`JAX_NUM_CPU_DEVICES=2` does for a run.

The ratio is meaningful only on an idle machine: on a loaded one, PyTorch lost far more
speed than XLA.
"""

import argparse
from collections.abc import Callable
from collections.abc import Sequence
import importlib.metadata
import importlib.util
import os
from typing import Any

from flax import linen as nn
import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import timing
from experiments import cli
from pnjax import models
from pnjax import runtime

# Speed relative to PyTorch.
TARGETS = {"training": 0.9, "evaluation": 1.0}
STEPS = tuple(TARGETS)
# Height and width, channels, size of the kernel and channels of the result, for some of
# the convolutions of ResNet-50 at 224 × 224.
CONVOLUTIONS = (
  (56, 64, 3, 64),
  (56, 64, 1, 256),
  (28, 128, 3, 128),
  (14, 256, 3, 256),
  (14, 256, 1, 1024),
  (7, 512, 3, 512),
)
_LEARNING_RATE = 1e-4
# Threads of one framework may keep spinning into the turn of the other.
_REST_SECONDS = 0.2


def main() -> int:
  """Print the page, and return the exit status."""
  parser = argparse.ArgumentParser(
    prog="python -m benchmarks.backbone",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument("--batch", type=int, default=8)
  parser.add_argument("--size", type=int, default=224)
  parser.add_argument("--repetitions", type=int, default=9)
  parser.add_argument("--variant", choices=["v1", "v1.5"], default="v1.5")
  parser.add_argument("--devices", type=int, default=1)
  parser.add_argument("--steps", nargs="+", choices=STEPS, default=STEPS)
  args = parser.parse_args()
  jax.config.update("jax_num_cpu_devices", args.devices)
  runtime.keep_freed_memory()  # Like `experiments.main`; PyTorch benefits, too.
  print("# Speed of ResNet-50\n")
  print(
    f"{timing.machine()}, jax {jax.__version__}{_torch_version()}, float32; ResNet-50 "
    f"{args.variant}, batches of {args.batch} images of {args.size} × {args.size}, "
    f"devices: {args.devices}; medians of"
  )
  print(f"\n```sh\n{cli.command_line('benchmarks.backbone')}\n```\n")
  print_speed(args.variant, args.batch, args.size, args.repetitions, args.steps)
  if importlib.util.find_spec("torch") is not None:
    print_convolutions(args.batch, args.repetitions)
  return 0


def _torch_version() -> str:
  if importlib.util.find_spec("torch") is None:
    return " (no PyTorch to compare with: pip install 'pnjax[torch]')"
  return f", torch {importlib.metadata.version('torch')}"


def print_speed(
  variant: str, batch: int, size: int, repetitions: int, kinds: Sequence[str] = STEPS
) -> None:
  """Print the speed of both frameworks, or of pnjax without PyTorch.

  Args:
    variant: Variant of ResNet-50.
    batch: Number of images.
    size: Height and width of the images.
    repetitions: Number of times that each step is timed.
    kinds: Names of the steps, out of `STEPS`.
  """
  rng = np.random.default_rng(0)
  x = rng.standard_normal((batch, size, size, 3), dtype=np.float32)
  labels = rng.integers(1000, size=batch)
  steps = {"pnjax": flax_steps(variant, x, labels)}
  if importlib.util.find_spec("torch") is not None:
    steps["PyTorch"] = torch_steps(variant, x, labels)
  print(f"| images per second | {' | '.join(steps)} | ratio | target | met |")
  print(f"|---|{'---:|' * len(steps)}---:|---:|---|")
  for kind in kinds:
    cases = {name: functions[kind] for name, functions in steps.items()}
    timing.measure(cases, rounds=1, warm_up=False)  # Compiles.
    seconds = timing.measure(cases, repetitions, warm_up=False, rest=_REST_SECONDS)
    speeds = {name: batch / time for name, time in seconds.items()}
    ratio, met = "–", "–"
    if "PyTorch" in speeds:
      value = speeds["pnjax"] / speeds["PyTorch"]
      ratio, met = f"{value:.2f}", "yes" if value >= TARGETS[kind] else "no"
    cells = (*(f"{s:.2f}" for s in speeds.values()), ratio, f">= {TARGETS[kind]}", met)
    print(f"| {kind} | {' | '.join(cells)} |", flush=True)
  print(f"\nLoad average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")


def print_convolutions(batch: int, repetitions: int) -> None:
  """Print the speed of single convolutions in both frameworks, forward.

  Args:
    batch: Number of images.
    repetitions: Number of times that each is timed.
  """
  # Imported here, since PyTorch is optional.
  import torch

  print("\n## Single convolutions, forward\n")
  print("| feature map, kernel, channels | pnjax, ms | PyTorch, ms | ratio |")
  print("|---|---:|---:|---:|")
  rng = np.random.default_rng(0)
  for side, width, kernel, channels in CONVOLUTIONS:
    x = rng.standard_normal((batch, side, side, width), dtype=np.float32)
    cases = {
      "pnjax": _flax_convolution(x, kernel, channels),
      "PyTorch": _torch_convolution(torch.from_numpy(x), kernel, channels),
    }
    ours, theirs = (1e3 * t for t in timing.measure(cases, repetitions).values())
    shape = f"{side} × {side} × {width}, {kernel} × {kernel}, {channels}"
    print(f"| {shape} | {ours:.2f} | {theirs:.2f} | {theirs / ours:.2f} |", flush=True)


def _flax_convolution(x: np.ndarray, kernel: int, channels: int) -> Callable[[], None]:
  conv = nn.Conv(channels, (kernel, kernel), use_bias=False)
  variables = conv.init(jax.random.key(0), x[:1])
  apply, x = jax.jit(conv.apply), jnp.asarray(x)
  return lambda: jax.block_until_ready(apply(variables, x))


def _torch_convolution(x: Any, kernel: int, channels: int) -> Callable[[], None]:
  import torch

  conv = torch.nn.Conv2d(x.shape[-1], channels, kernel, padding="same", bias=False)
  conv = conv.to(memory_format=torch.channels_last)
  x = x.permute(0, 3, 1, 2)  # A view: it is channels-last in memory already.

  @torch.inference_mode()
  def run():
    conv(x)

  return run


def flax_steps(
  variant: str, x: np.ndarray, labels: np.ndarray
) -> dict[str, Callable[[], None]]:
  """Return a training step and an evaluation step of pnjax.

  Args:
    variant: Variant of ResNet-50.
    x: Preprocessed images `[B, H, W, 3]`.
    labels: Labels `[B]`.
  """
  model = models.ResNet50(variant=variant, num_classes=1000)
  variables = jax.jit(model.init)(jax.random.key(0), x[:1])
  params, batch_stats = variables["params"], variables["batch_stats"]
  devices = runtime.Devices()
  batch = devices.shard({"image": x, "label": labels})

  def logits(params, batch, **kwargs):
    variables = {"params": params, "batch_stats": batch_stats}
    return model.apply(variables, batch["image"], method="logits", **kwargs)

  def train(params, batch, psum):
    def loss(params):
      scores = jax.nn.log_softmax(logits(params, batch, train=True))
      chosen = jnp.take_along_axis(scores, batch["label"][:, None], 1)
      return -jnp.sum(chosen) / len(labels)

    grads = psum(jax.grad(loss)(params))
    return jax.tree.map(lambda p, g: p - _LEARNING_RATE * g, params, grads), ()

  def evaluate(params, batch, psum):
    del psum
    return (), logits(params, batch)

  params = devices.replicate(params)
  train, evaluate = (devices.parallelize(f, donate=False) for f in (train, evaluate))
  return {
    "training": lambda: jax.block_until_ready(train(params, batch)),
    "evaluation": lambda: jax.block_until_ready(evaluate(params, batch)),
  }


def torch_steps(
  variant: str, x: np.ndarray, labels: np.ndarray
) -> dict[str, Callable[[], None]]:
  """Return the same steps of PyTorch.

  Args:
    variant: Variant of ResNet-50.
    x: Preprocessed images `[B, H, W, 3]`.
    labels: Labels `[B]`.
  """
  # Imported here, since PyTorch is optional.
  import torch

  from benchmarks import torch_networks

  torch.set_num_threads(os.cpu_count())
  network = torch_networks.ResNet(variant).to(memory_format=torch.channels_last)
  network.eval()  # Fixes the statistics of batch norm; all parameters train.
  # A view: the images are channels-last in memory already.
  x, labels = torch.from_numpy(x).permute(0, 3, 1, 2), torch.from_numpy(labels)
  optimizer = torch.optim.SGD(network.parameters(), _LEARNING_RATE)

  def train():
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(network(x), labels).backward()
    optimizer.step()

  @torch.inference_mode()
  def evaluate():
    network(x)

  return {"training": train, "evaluation": evaluate}


if __name__ == "__main__":
  cli.run_plain(main)
