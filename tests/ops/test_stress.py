"""Every Power Normalization in all forms and routes, on features that are hard.

Hypothesis varies values, ranks, ties, scales and parameters. Shapes are few, since JAX
compiles for each: all forms of a function and their derivatives are one program.
"""

import functools

import hypothesis
from hypothesis import strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import ops

BATCH = 4
NUM_DIRECTIONS = 2

# Bounds of the parameter, which is traced, and its value for `matmul`, if it has to be
# known.
PARAMETERS = {
  "gamma": (0.05, 1.0, 0.5),
  "maxexp": (0.05, 1e4, 5),
  "asinhe": (1e-3, 1e3, None),
  "sigme": (1e-3, 1e4, None),
}

QUICK = [("wide", "float32"), ("tall", "float32")]
SLOW = [
  ("one vector", "float32"),
  ("one channel", "float32"),
  ("wide", "float64"),
  ("tall", "float64"),
  ("wide", "bfloat16"),
]
SHAPES = {"wide": (3, 6), "tall": (7, 4), "one vector": (1, 4), "one channel": (3, 1)}
SETTINGS = [
  *QUICK,
  *(pytest.param(*setting, marks=pytest.mark.slow) for setting in SLOW),
]


def forms_of(name, directions, lam):
  """All forms of a function: functions of features and parameter."""
  norm = ops.POWER_NORMS[name]
  spectral = getattr(ops, f"spectral_{name}_pool")
  forms = getattr(ops, f"spectral_{name}_forms")
  scaled = {} if name in ("gamma", "asinhe") else {"lam": lam}
  known = PARAMETERS[name][2]

  def route(function, *arrays, **options):
    return lambda x, p: function(x, *arrays, p, **scaled, **options)

  def with_known(function, *arrays, **options):
    return lambda x, p: function(x, *arrays, known, **scaled, **options)

  found = {
    "matrix": lambda x, p: norm.matrix(ops.cooccurrence(x), p, lam),
    "pool": lambda x, p: norm.pool(x, p, lam),
    "gram": route(spectral, route="gram"),
    "direct": route(spectral, route="direct"),
    "forms": route(forms, directions, route="gram"),
    "first order": lambda x, p: norm.first_order(jnp.mean(x, -2), p, lam),
  }
  if name == "sigme":
    bound = {"max_eta_prime": PARAMETERS[name][1], "route": "matmul"}
    found["matmul"] = route(spectral, **bound)
    found["matmul forms"] = route(forms, directions, **bound)
  elif known is not None:
    found["known gram"] = with_known(spectral, route="gram")
    found["matmul"] = with_known(spectral, route="matmul")
    found["matmul forms"] = with_known(forms, directions, route="matmul")
  return found


@functools.partial(jax.jit, static_argnums=0)
def compute(name, x, directions, parameter, lam):
  """Values of all forms, and derivatives by features and parameter."""
  results = {}
  for key, f in forms_of(name, directions, lam).items():
    out, pull_back = jax.vjp(f, x, parameter)
    weights = jnp.cos(jnp.arange(out.size, dtype=jnp.float32)).reshape(out.shape)
    results[key] = out, *pull_back(weights.astype(out.dtype))
  return results


KINDS = ("random", "one", "repeated", "orthogonal", "near", "channel", "zero")
entry = st.tuples(st.sampled_from(KINDS), st.integers(-15, 15), st.integers(0, 2**31))
examples = st.tuples(
  st.lists(entry, min_size=BATCH, max_size=BATCH),
  st.floats(0, 1),
  st.sampled_from([0.0, 1e-6, 1e-3, 1.0]),
)


def features(shape, kind, exponent, seed, nonnegative):
  """Features of one image."""
  rng = np.random.default_rng(seed)
  x = rng.normal(size=shape)
  x = {
    "random": lambda: x,
    "one": lambda: np.outer(np.arange(1, shape[0] + 1), x[0]),
    "repeated": lambda: np.repeat(x[:1], shape[0], axis=0),
    "orthogonal": lambda: np.eye(*shape),
    "near": lambda: x[:1] + 1e-4 * x,
    "channel": lambda: np.eye(*shape)[:, :1] @ np.eye(1, shape[1]),
    "zero": lambda: np.zeros(shape),
  }[kind]()
  return 10.0**exponent * (np.abs(x) if nonnegative else x)


def draw(name, shape, example):
  """Arrays of features, the parameter and λ of an example."""
  entries, share, lam = example
  low, high, _ = PARAMETERS[name]
  nonnegative = ops.POWER_NORMS[name].needs_nonnegative
  x = np.stack([features(SHAPES[shape], *entry, nonnegative) for entry in entries])
  return x, low * (high / low) ** share, lam


def run(name, x, parameter, lam, dtype):
  directions = np.random.default_rng(0).normal(size=(x.shape[-1], NUM_DIRECTIONS))
  with jax.enable_x64(dtype == "float64"):
    wide = jnp.float64 if dtype == "float64" else jnp.float32
    results = compute(
      name,
      jnp.asarray(x, wide).astype(dtype),
      jnp.asarray(directions, wide).astype(dtype),
      jnp.asarray(parameter, wide),
      jnp.asarray(lam, wide),
    )
    results = jax.tree.map(lambda a: np.asarray(a.astype(wide), np.float64), results)
  return directions, results


def tolerance(name, x, parameter, lam, dtype):
  """How far the forms of each image may be apart.

  An error of δ in eigenvalues or entries becomes at most δ times the largest slope,
  and δ^p at the infinite slope of a power p < 1. δ is some rounding units of the
  largest eigenvalue.
  """
  largest = np.sum(np.square(x), axis=(1, 2)) / x.shape[1]
  if ops.POWER_NORMS[name].bounded:
    largest = largest / np.where(largest + lam == 0, 1, largest + lam)
  delta = 50 * float(jnp.finfo(dtype).eps) * largest
  slope = {"gamma": 0, "maxexp": parameter, "asinhe": parameter, "sigme": parameter}
  error = slope[name] * delta
  if name in ("gamma", "maxexp") and parameter < 1:
    error = error + delta**parameter
  if name == "gamma":
    error = error + largest**parameter * 50 * float(jnp.finfo(dtype).eps)
  return error


def largest_difference(a, b):
  return np.max(np.abs(a - b), axis=tuple(range(1, a.ndim)))


@pytest.mark.parametrize("shape, dtype", SETTINGS)
@pytest.mark.parametrize("name", ops.POWER_NORMS)
def test_all_forms_of_any_features(name, shape, dtype):
  bounded = ops.POWER_NORMS[name].bounded

  @hypothesis.settings(
    max_examples=40,
    derandomize=True,
    deadline=None,
    database=None,
  )
  @hypothesis.given(examples)
  def check(example):
    x, parameter, lam = draw(name, shape, example)
    directions, results = run(name, x, parameter, lam, dtype)
    for key, arrays in results.items():
      assert all(np.isfinite(a).all() for a in arrays), key
    out = {key: arrays[0] for key, arrays in results.items()}
    limit = tolerance(name, x, parameter, lam, dtype)
    unit = float(jnp.finfo(dtype).eps)
    # Matrix products have errors of their own, as of doublings up to the bound on η'.
    known = tolerance(name, x, PARAMETERS[name][2] or parameter, lam, dtype)
    known = known + 4000 * unit * bounded
    for key in out.keys() & {"matrix", "pool", "gram", "direct", "matmul"}:
      error = known if key == "matmul" else limit
      assert np.all(largest_difference(out[key], out[key].swapaxes(1, 2)) <= error)
      if key in ("gram", "direct", "matmul"):
        smallest = np.linalg.eigvalsh(out[key])[:, 0]
        assert np.all(smallest >= -error), key
      if bounded:
        excess = np.max(np.abs(out[key]), axis=(1, 2)) - 1
        rounding = {"matrix": 0, "pool": 0, "matmul": error}.get(key, 20 * unit)
        assert np.all(excess <= rounding), key
    assert np.all(largest_difference(out["matrix"], out["pool"]) <= limit)
    assert np.all(largest_difference(out["gram"], out["direct"]) <= limit)
    assert agree(out["forms"], out["gram"], directions, limit)
    if "matmul" in out:
      reference = out.get("known gram", out["gram"])
      assert np.all(largest_difference(out["matmul"], reference) <= known)
      assert agree(out["matmul forms"], reference, directions, known)
    if bounded:
      assert np.all(np.abs(out["first order"]) <= 1)

  check()


def agree(forms, psi, directions, error):
  """Whether forms are pᵀΨp."""
  expected = np.einsum("dr,bde,er->br", directions, psi, directions)
  norms = np.sum(np.square(directions), axis=0)
  return np.all(np.abs(forms - expected) <= 4 * error[:, None] * norms)


@pytest.mark.parametrize("name", ops.POWER_NORMS)
def test_nan_stays_nan_in_every_form(name):
  x, parameter, lam = draw(name, "wide", ([("random", 0, 1)] * BATCH, 0.5, 1e-6))
  x[2, 0, 0] = np.nan
  _, results = run(name, x, parameter, lam, "float32")
  for key, (out, x_bar, _) in results.items():
    for array in (out, x_bar):
      has_nan = np.isnan(array).reshape(BATCH, -1).any(axis=1)
      np.testing.assert_array_equal(has_nan, np.arange(BATCH) == 2, key)


@pytest.mark.parametrize("scale", [1e-35, 1e-30, 1e18, 1e25, 1e30])
@pytest.mark.parametrize("name", ["maxexp", "sigme"])
def test_functions_without_a_scale_have_none(name, scale):
  """The squares of these features are beyond float32."""
  x, parameter, lam = draw(name, "wide", ([("random", 0, 1)] * BATCH, 0.5, 0.0))
  _, expected = run(name, x, parameter, lam, "float32")
  _, results = run(name, scale * x, parameter, lam, "float32")
  for key in expected.keys() - {"matrix", "first order"}:
    for got, want, factor in zip(
      results[key], expected[key], (1, scale, 1), strict=True
    ):
      np.testing.assert_allclose(
        factor * got, want, rtol=1e-3, atol=1e-3 * np.max(np.abs(want))
      )


@pytest.mark.parametrize("name", ["gamma", "asinhe"])
def test_features_whose_squares_overflow_are_not_finite(name):
  """As in their co-occurrences: nothing finite and wrong."""
  x, parameter, lam = draw(name, "wide", ([("random", 0, 1)] * BATCH, 0.5, 0.0))
  _, results = run(name, 1e25 * x, parameter, lam, "float32")
  for key in ("matrix", "pool", "gram", "direct", "forms"):
    out = results[key][0]
    assert not np.isfinite(out).reshape(BATCH, -1).all(axis=1).any(), key
