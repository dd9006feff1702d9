import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import ops
from tests import jaxprs
from tests.ops import families

# Name: (forms, pool, value of their parameter).
FORMS = {
  name: (getattr(ops, f"spectral_{name}_forms"), pool, parameter)
  for name, (pool, parameter) in families.SPECTRAL_POOLS.items()
}
FORMS["maxexp by products"] = (
  ops.spectral_maxexp_forms,
  ops.spectral_maxexp_pool,
  7,
)


# The other kinds of features are tested with the pools, which share the derivative.
KINDS = ("wide", "repeated vectors", "zero")


def some_directions(rng, dtype=np.float64):
  return rng.normal(size=(9, 3)).astype(dtype)


def forms_of(psi, directions):
  return jnp.einsum("dr,...de,er->...r", directions, psi, directions)


def value_and_derivatives(f):
  """f(features, directions) and the cotangents of both for some cotangent."""

  def derivatives(phi, directions):
    value, pullback = jax.vjp(f, phi, directions)
    return value, *pullback(jnp.cos(value))

  return derivatives


@pytest.mark.parametrize("name", FORMS)
def test_forms_equal_those_of_the_explicit_matrix(x64, rng, name):
  forms, pool, parameter = FORMS[name]
  explicit = value_and_derivatives(lambda x, p: forms_of(pool(x, parameter), p))
  implicit = value_and_derivatives(lambda x, p: forms(x, p, parameter))
  for kind in (*KINDS, "tall"):
    phi, directions = families.features(rng, kind), some_directions(rng)
    want, *want_bars = explicit(phi, directions)
    got, *bars = implicit(phi, directions)
    tolerance = 1e-6 if name == "gamma" else 1e-10
    np.testing.assert_allclose(got, want, atol=tolerance)
    # Both omit the slope of Gamma at zero eigenvalues, but rounding may hide such an
    # eigenvalue from one of them.
    if name != "gamma" or kind == "wide":
      for a, b in zip(bars, want_bars, strict=True):
        np.testing.assert_allclose(a, b, atol=10 * tolerance, rtol=tolerance)


def test_forms_of_the_cooccurrence_matrix(x64, rng):
  phi, directions = families.features(rng, "wide"), some_directions(rng)
  want = forms_of(ops.cooccurrence(phi), directions)
  np.testing.assert_allclose(ops.cooccurrence_forms(phi, directions), want, rtol=1e-12)
  families.check_gradients(ops.cooccurrence_forms, (phi, directions))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", families.SMOOTH)
def test_gradients(x64, rng, name, kind):
  forms, _, parameter = FORMS[name]
  lam = (1.0,) if kind == "zero" and name != "asinhe" else ()
  families.check_gradients(
    forms, (families.features(rng, kind), some_directions(rng), parameter, *lam)
  )


@pytest.mark.parametrize("name", ["gamma", "maxexp by products"])
def test_gradients_at_full_rank(x64, rng, name):
  forms, _, parameter = FORMS[name]
  families.check_gradients(
    lambda phi, directions: forms(phi, directions, parameter),
    (families.features(rng, "wide") + 0.1, some_directions(rng)),
  )


@pytest.mark.parametrize("name", FORMS)
def test_no_matrix_is_formed(name):
  forms, pool, parameter = FORMS[name]
  phi, directions = jnp.ones((2, 5, 23)), jnp.ones((23, 3))
  derivatives = value_and_derivatives(lambda phi, d: forms(phi, d, parameter))
  assert not jaxprs.has_shape(derivatives, (phi, directions), (23, 23))
  explicit = value_and_derivatives(lambda phi, d: forms_of(pool(phi, parameter), d))
  assert jaxprs.has_shape(explicit, (phi, directions), (23, 23))


@pytest.mark.parametrize("name", FORMS)
def test_float32_with_two_batch_axes_under_vmap_and_jit(rng, name):
  """Finite for any features at any scale, and accurate at scale 1."""
  forms, _, parameter = FORMS[name]
  derivatives = value_and_derivatives(lambda x, p: forms(x, p, parameter))
  phi = np.stack([families.features(rng, kind, np.float32) for kind in KINDS])
  directions = some_directions(rng, np.float32)
  scaled = phi * np.float32([1e-15, 1, 1e10, 1e15]).reshape(2, 2, 1, 1, 1)
  got = jax.jit(jax.vmap(derivatives, (0, None)))(scaled, directions)
  assert all(np.all(np.isfinite(x)) for x in got)

  with jax.enable_x64(True):
    want = derivatives(phi[0].astype(np.float64), directions.astype(np.float64))
    want = [np.asarray(x) for x in want]
  for a, b in zip(got[:2], want[:2], strict=True):
    np.testing.assert_allclose(a[0, 1, 0], b, atol=1e-4 * np.max(np.abs(b)))


def test_directions_are_shared_by_the_batch(x64, rng):
  """Their cotangent is the sum over both batch axes."""
  phi, directions = rng.normal(size=(2, 3, 6, 9)), some_directions(rng)
  forms = jax.jit(ops.spectral_sigme_forms)
  families.check_gradients(forms, (phi, directions, 12.0))


def test_half_precision_is_computed_in_float32(rng):
  phi = jnp.asarray(families.features(rng, "wide"), jnp.bfloat16)
  directions = some_directions(rng, np.float32)
  got = ops.spectral_sigme_forms(phi, directions, 12.0)
  want = ops.spectral_sigme_forms(phi.astype(jnp.float32), directions, 12.0)
  assert got.dtype == jnp.bfloat16
  np.testing.assert_array_equal(got, want.astype(jnp.bfloat16))


@pytest.mark.parametrize(
  "directions, error, match",
  [
    (jnp.ones((5, 3)), ValueError, r"\(5, 3\), expected \[d, R\] = \[4, R\]"),
    (jnp.ones(4), ValueError, r"\(4,\), expected \[d, R\]"),
    (jnp.ones((4, 3), int), TypeError, "int32"),
  ],
)
def test_bad_directions(directions, error, match):
  with pytest.raises(error, match=match):
    ops.spectral_gamma_forms(jnp.ones((3, 4)), directions, 0.5)
