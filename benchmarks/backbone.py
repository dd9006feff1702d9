"""Speed of ResNet-50 against PyTorch, on the same machine in one run.

  python -m benchmarks.backbone

Both take the same step by turns: a training step (forward, cross-entropy, backward,
SGD) with the statistics of batch norm held fixed, as in fine-tuning, and an
evaluation step. PyTorch runs channels-last.

The ratio means something on an idle machine only: beside other processes PyTorch
was seen to lose far more speed than XLA.
"""

import argparse
from collections.abc import Callable
import os
import statistics
import time

import jax
import jax.numpy as jnp
import numpy as np
import torch

from benchmarks import torch_networks
from pnjax import models

_LEARNING_RATE = 1e-4
# Threads of the one framework may keep spinning when the other's turn comes.
_REST_SECONDS = 0.2


def main() -> None:
  """Prints a table."""
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--batch", type=int, default=8)
  parser.add_argument("--size", type=int, default=224)
  parser.add_argument("--repetitions", type=int, default=9)
  parser.add_argument("--variant", choices=["v1", "v1.5"], default="v1.5")
  args = parser.parse_args()
  torch.set_num_threads(os.cpu_count())
  rng = np.random.default_rng(0)
  shape = (args.batch, args.size, args.size, 3)
  x = rng.standard_normal(shape, dtype=np.float32)
  labels = rng.integers(1000, size=args.batch)
  ours, theirs = (
    flax_steps(args.variant, x, labels),
    torch_steps(args.variant, x, labels),
  )
  print(f"ResNet-50 {args.variant}, batch {args.batch}, {args.size} × {args.size}")
  print(f"{'':12}{'pnjax':>10}{'PyTorch':>10}{'ratio':>8}   images a second, medians")
  for name in ours:
    seconds = race([ours[name], theirs[name]], args.repetitions)
    speeds = [args.batch / t for t in seconds]
    ratio = speeds[0] / speeds[1]
    print(f"{name:12}{speeds[0]:10.2f}{speeds[1]:10.2f}{ratio:8.2f}", flush=True)
  print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def race(steps: list[Callable[[], None]], repetitions: int) -> list[float]:
  """Returns the median seconds of each step; they take turns."""
  seconds = [[] for _ in steps]
  for repetition in range(repetitions + 1):
    for i, step in enumerate(steps):
      time.sleep(_REST_SECONDS)
      start = time.perf_counter()
      step()
      if repetition > 0:  # The first compiles.
        seconds[i].append(time.perf_counter() - start)
  return [statistics.median(s) for s in seconds]


def flax_steps(
  variant: str, x: np.ndarray, labels: np.ndarray
) -> dict[str, Callable[[], None]]:
  """Returns a training and an evaluation step of pnjax."""
  model = models.ResNet50(variant=variant, num_classes=1000)
  x, labels = jnp.asarray(x), jnp.asarray(labels)
  variables = jax.jit(model.init)(jax.random.key(0), x[:1])
  params, batch_stats = variables["params"], variables["batch_stats"]

  @jax.jit
  def train(params):
    def loss(params):
      variables = {"params": params, "batch_stats": batch_stats}
      logits = model.apply(variables, x, train=True, method="logits")
      chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], 1)
      return -jnp.mean(chosen)

    grads = jax.grad(loss)(params)
    return jax.tree.map(lambda p, g: p - _LEARNING_RATE * g, params, grads)

  @jax.jit
  def evaluate(params):
    variables = {"params": params, "batch_stats": batch_stats}
    return model.apply(variables, x, method="logits")

  return {
    "training": lambda: jax.block_until_ready(train(params)),
    "evaluation": lambda: jax.block_until_ready(evaluate(params)),
  }


def torch_steps(
  variant: str, x: np.ndarray, labels: np.ndarray
) -> dict[str, Callable[[], None]]:
  """Returns the same steps of PyTorch."""
  network = torch_networks.ResNet50(variant).to(memory_format=torch.channels_last)
  network.eval()  # Holds the statistics of batch norm; all parameters train.
  # A view in channels-last order, as the pictures are in memory already.
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
  main()
