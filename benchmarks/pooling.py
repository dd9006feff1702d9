"""Speed and memory of the pooling operators against their alternatives.

  python -m benchmarks.pooling > benchmarks/results/pooling.md

What it prints is a page in Markdown. There is one table per setting, with these
columns: milliseconds of the forward pass and of forward and backward together; the
latter as a multiple of the two matrix products that no operator can avoid (XᵀX forward,
XG backward); and the temporaries that XLA allocates for both passes, in units of one
d×d matrix per image. Layers of other papers have rows of their own, in JAX and, if it
is installed, in PyTorch. Then follow the project's targets, and the parts of a spectral
pool.
"""

from collections.abc import Callable
import functools
import importlib.util
import math
import os
from typing import NamedTuple

from absl import flags

import pnjax  # Must come first: it sets how LAPACK's threads wait.  # isort: skip
import jax
from jax import lax
import jax.numpy as jnp
import numpy as np

from benchmarks import timing
from experiments import cli
from pnjax import ops
from pnjax import runtime

_ROUNDS = flags.DEFINE_integer(
  "rounds",
  15,
  "Number of times that each operator is timed; five times as many if it is fast.",
)
_SLOW_ROUNDS = flags.DEFINE_integer(
  "slow_rounds", 3, "The same for operators that take more than half a second."
)


class Setting(NamedTuple):
  """Shapes of one table.

  Attributes:
    name: Title of the table.
    dim: Number d of channels.
    num_vectors: Number N of feature vectors per image.
    batch: Number of images.
    peers: Whether the alternatives are measured, too.
  """

  name: str
  dim: int
  num_vectors: int
  batch: int
  peers: bool = True


SETTINGS = (
  Setting("ResNet-50 at 448, one image", 2058, 196, 1),
  Setting("ResNet-50 at 448, four images", 2058, 196, 4, peers=False),
  Setting("AlexNet, one image", 266, 36, 1),
  Setting("256 channels at 14×14, one image", 256, 196, 1),
  Setting("256 channels at 14×14, eight images", 256, 196, 8),
)

ETA = ops.POWER_NORMS["maxexp"].default
ETA_PRIME = ops.POWER_NORMS["sigme"].default


def _with_default(norm: ops.PowerNorm, form: Callable) -> Callable:
  # As a float: the algorithm for Python integers has its own row.
  return lambda phi: form(phi, float(norm.default))


SPECTRAL = {
  f"spectral {name}": _with_default(norm, norm.spectral)
  for name, norm in ops.POWER_NORMS.items()
  if norm.spectral is not None
} | {"spectral maxexp, integer η": lambda phi: ops.spectral_maxexp_pool(phi, ETA)}
COMPOSITION = "sigme of cooccurrence"
OURS = {
  **{name: _with_default(norm, norm.pool) for name, norm in ops.POWER_NORMS.items()},
  COMPOSITION: lambda phi: ops.sigme(ops.cooccurrence(phi), ETA_PRIME),
  **SPECTRAL,
  **{
    f"{name}, route matmul": functools.partial(form, route="matmul")
    for name, form in {
      "spectral gamma ½": lambda phi, route: ops.spectral_gamma_pool(
        phi, 0.5, route=route
      ),
      "spectral sigme": lambda phi, route: ops.spectral_sigme_pool(
        phi, float(ETA_PRIME), route=route
      ),
    }.items()
  },
}

PRODUCTS = "the products alone"
TORCH_EIGH = "torch.linalg.eigh, square root"
TORCH_POWER = f"torch.matrix_power, maxexp {ETA}"
TORCH_NEWTON = "torch.bmm, five Newton–Schulz steps"
TORCH_SIGME = "torch, sigme"


def sqrt_by_autodiff(phi: jax.Array) -> jax.Array:
  """Return the matrix square root, differentiated through `jnp.linalg.eigh`."""
  w, u = jnp.linalg.eigh(ops.cooccurrence(phi))
  root = jnp.sqrt(jnp.maximum(w, 1e-12))
  return jnp.matmul(u * root[..., None, :], u.mT, precision=lax.Precision.HIGHEST)


JAX_PEERS = {
  "autodiff through jnp.linalg.eigh, square root": sqrt_by_autodiff,
  "newton_schulz_sqrt of cooccurrence": lambda phi: ops.newton_schulz_sqrt(
    ops.cooccurrence(phi)
  ),
  "pade_sqrt of cooccurrence": lambda phi: ops.pade_sqrt(ops.cooccurrence(phi)),
}


class Case(NamedTuple):
  """One operator, compiled.

  Attributes:
    forward: Function that runs the forward pass.
    both: Function that runs the forward and the backward pass.
    temporaries: Temporaries of both passes in bytes, if known.
  """

  forward: Callable[[], object]
  both: Callable[[], object]
  temporaries: int | None


def jax_case(f: Callable[[jax.Array], jax.Array], phi, g) -> Case:
  """Compiles an operator on features, with and without its backward pass."""

  def both(phi, g):
    value, vjp = jax.vjp(f, phi)
    return value, vjp(g)[0]

  return _compiled(f, (phi,), both, (phi, g))


def products_case(phi, g) -> Case:
  """Compiles the two products of size d×d×N that every operator needs."""
  matmul = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)

  def both(phi, g):
    return matmul(phi.mT, phi), matmul(phi, g)

  return _compiled(lambda phi: matmul(phi.mT, phi), (phi,), both, (phi, g))


def _compiled(forward, forward_args, both, both_args) -> Case:
  forward = jax.jit(forward).lower(*forward_args).compile()
  both = jax.jit(both).lower(*both_args).compile()
  return Case(
    lambda: jax.block_until_ready(forward(*forward_args)),
    lambda: jax.block_until_ready(both(*both_args)),
    both.memory_analysis().temp_size_in_bytes,
  )


def torch_cases(phi: np.ndarray, g: np.ndarray) -> dict[str, Case]:
  """Return the alternatives in eager PyTorch, as they are commonly written."""
  # Imported here, since PyTorch is optional.
  import torch

  torch.set_num_threads(os.cpu_count() or 1)
  dim = phi.shape[-1]
  phi = torch.from_numpy(phi).reshape(-1, *phi.shape[-2:])
  g = torch.from_numpy(g).reshape(-1, dim, dim)
  identity = torch.eye(dim).expand(phi.shape[0], dim, dim)

  def cooccurrence(phi):
    return torch.bmm(phi.mT, phi) / phi.shape[-2]

  def trace(m):
    return m.diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]

  def eigh(phi):
    w, u = torch.linalg.eigh(cooccurrence(phi))
    return (u * w.clamp_min(1e-12).sqrt()[:, None, :]) @ u.mT

  def matrix_power(phi):
    m = cooccurrence(phi)
    return identity - torch.matrix_power(identity - m / (trace(m) + 1e-6), ETA)

  def newton_schulz(phi):
    m = cooccurrence(phi)
    t = trace(m)
    y, z = m / t, identity
    for _ in range(5):
      step = (3 * identity - torch.bmm(z, y)) / 2
      y, z = torch.bmm(y, step), torch.bmm(step, z)
    return y * t.sqrt()

  def sigme(phi):
    m = cooccurrence(phi)
    return 2 / (1 + torch.exp(-ETA_PRIME * m / (trace(m) + 1e-6))) - 1

  def case(f):
    def forward():
      with torch.no_grad():
        return f(phi)

    def both():
      x = phi.detach().requires_grad_()
      f(x).backward(g)
      return x.grad

    return Case(forward, both, None)

  return {
    TORCH_SIGME: case(sigme),
    TORCH_EIGH: case(eigh),
    TORCH_POWER: case(matrix_power),
    TORCH_NEWTON: case(newton_schulz),
  }


def run_setting(setting: Setting, with_torch: bool) -> dict[str, float]:
  """Print the table of a setting.

  Args:
    setting: Shapes of the table.
    with_torch: Whether PyTorch is installed.

  Returns:
    Seconds of the forward and backward pass by operator.
  """
  rng = np.random.default_rng(0)
  batch = (setting.batch,) if setting.batch > 1 else ()
  phi = rng.normal(size=(*batch, setting.num_vectors, setting.dim))
  phi = np.maximum(phi, 0).astype(np.float32)
  g = rng.normal(size=(*batch, setting.dim, setting.dim)).astype(np.float32)

  arrays = jnp.asarray(phi), jnp.asarray(g)
  cases = {PRODUCTS: products_case(*arrays)}
  cases |= {name: jax_case(f, *arrays) for name, f in OURS.items()}
  if setting.peers:
    cases |= {name: jax_case(f, *arrays) for name, f in JAX_PEERS.items()}
  if setting.peers and with_torch:
    cases |= torch_cases(phi, g)

  forward = _measure({name: case.forward for name, case in cases.items()})
  both = _measure({name: case.both for name, case in cases.items()})

  print(f"\n## {setting.name}: d = {setting.dim}, N = {setting.num_vectors}\n")
  print(
    "| operator | forward, ms | with backward, ms | × products | temporaries, d×d |"
  )
  print("|---|---:|---:|---:|---:|")
  for name, case in cases.items():
    memory = "–"
    if case.temporaries is not None:
      memory = f"{case.temporaries / (4 * setting.dim**2 * setting.batch):.2f}"
    cells = (
      name,
      _ms(forward[name]),
      _ms(both[name]),
      f"{both[name] / both[PRODUCTS]:.2f}",
      memory,
    )
    print(f"| {' | '.join(cells)} |", flush=True)
  return both


def run_parts(setting: Setting) -> None:
  """Print what a spectral pool consists of, each part measured alone.

  Args:
    setting: Shapes, with one image.
  """
  rng = np.random.default_rng(0)
  phi = np.maximum(rng.normal(size=(setting.num_vectors, setting.dim)), 0)
  x = jnp.asarray(phi / np.linalg.norm(phi), jnp.float32)
  g = jnp.asarray(rng.normal(size=(setting.dim, setting.dim)), jnp.float32)
  matmul = functools.partial(jnp.matmul, precision=lax.Precision.HIGHEST)
  k = matmul(x, x.mT)
  programs = {
    "K = XXᵀ": (lambda x: matmul(x, x.mT), x),
    "decomposition of K": (jnp.linalg.eigh, k),
    "Y = VᵀX, and three more such products": (
      lambda k, x: functools.reduce(lambda y, _: matmul(k, y), range(4), x),
      k,
      x,
    ),
    "YᵀY, the result": (lambda x: matmul(x.mT, x), x),
    "X (G + Gᵀ)": (lambda x, g: matmul(x, g + g.mT), x, g),
  }
  cases = {
    name: _compiled(f, args, f, args).forward for name, (f, *args) in programs.items()
  }
  pool = jax_case(SPECTRAL["spectral gamma"], x, g)
  both = _measure({**cases, "spectral gamma": pool.both})
  whole = both.pop("spectral gamma")
  print(f"\n## Parts of spectral gamma with its backward pass: {setting.name}\n")
  print("| part | ms |\n|---|---:|")
  for name, seconds in both.items():
    print(f"| {name} | {_ms(seconds)} |")
  print(f"| sum of the parts | {_ms(sum(both.values()))} |")
  print(f"| all of it | {_ms(whole)} |", flush=True)


def _ms(seconds: float) -> str:
  milliseconds = 1e3 * seconds
  return f"{milliseconds:.{max(0, 2 - int(math.log10(max(milliseconds, 1))))}f}"


def _measure(cases: dict[str, Callable[[], object]]) -> dict[str, float]:
  """Time fast cases in many rounds, and slow ones in few."""
  once = timing.measure(cases, rounds=1, warm_up=False)
  slow = {name: run for name, run in cases.items() if once[name] > 0.5}
  fast = {name: run for name, run in cases.items() if name not in slow}
  # Milliseconds are noisier than tenths of a second, and cheaper to repeat.
  rounds = _ROUNDS.value * (5 if max(once[name] for name in fast) < 0.05 else 1)
  return timing.measure(fast, rounds) | timing.measure(
    slow, _SLOW_ROUNDS.value, warm_up=False
  )


def print_targets(results: dict[str, dict[str, float]], with_torch: bool) -> None:
  """Compare the results with the targets.

  Args:
    results: Results of `run_setting` by name of the setting.
    with_torch: Whether PyTorch is installed.
  """
  large = results[SETTINGS[0].name]
  rows = [
    ("slowest spectral pool, × products", _slowest(large, PRODUCTS), "<=", 1.5),
    ("sigme, × products", large["sigme"] / large[PRODUCTS], "<=", 1.3),
    (f"{COMPOSITION} / sigme", large[COMPOSITION] / large["sigme"], "<=", 1.1),
  ]
  if with_torch:
    rows += [
      (
        "torch.linalg.eigh / slowest spectral pool",
        1 / _slowest(large, TORCH_EIGH),
        ">=",
        20,
      ),
      (
        "Newton–Schulz / slowest spectral pool",
        1 / _slowest(large, TORCH_NEWTON),
        ">=",
        60,
      ),
      ("sigme in torch / sigme", large[TORCH_SIGME] / large["sigme"], ">=", 2),
    ]
    for setting in SETTINGS[2:]:
      small = results[setting.name]
      for peer, target in ((TORCH_EIGH, 1), (TORCH_POWER, 1), (TORCH_NEWTON, 2.5)):
        label = f"{setting.name}: {peer} / slowest spectral pool"
        rows.append((label, 1 / _slowest(small, peer), ">=", target))
  print("\n## Targets, forward + backward\n")
  print("| ratio | measured | target | met |\n|---|---:|---:|---|")
  for label, value, sign, target in rows:
    met = value <= target if sign == "<=" else value >= target
    print(f"| {label} | {value:.2f} | {sign} {target} | {'yes' if met else 'no'} |")


def _slowest(both: dict[str, float], peer: str) -> float:
  return max(both[name] for name in SPECTRAL) / both[peer]


def main() -> int:
  """Print all tables, and return the exit status."""
  runtime.keep_freed_memory()  # Like `experiments.main`; PyTorch benefits, too.
  with_torch = importlib.util.find_spec("torch") is not None
  versions = f"jax {jax.__version__}, pnjax {pnjax.__version__}"
  if with_torch:
    versions += f", torch {importlib.import_module('torch').__version__}"
  print("# Speed of pooling\n")
  print(f"{timing.machine()}, float32, {versions}; medians of")
  print(f"\n```sh\n{cli.command_line('benchmarks.pooling')}\n```\n")
  if not with_torch:
    print(
      "PyTorch is not installed, so its rows are missing (pip install 'pnjax[torch]')"
    )
  results = {s.name: run_setting(s, with_torch) for s in SETTINGS}
  print_targets(results, with_torch)
  run_parts(SETTINGS[0])
  return 0


if __name__ == "__main__":
  cli.run(main)
