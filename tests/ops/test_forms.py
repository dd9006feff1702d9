import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import ops
from tests import jaxprs
from tests.ops import families

# Name: (forms, pool, their one parameter).
FORMS = {
  name: (getattr(ops, f"spectral_{name}_forms"), pool, parameter)
  for name, (pool, parameter) in families.SPECTRAL_POOLS.items()
}
FORMS["maxexp by products"] = (
  ops.spectral_maxexp_forms,
  ops.spectral_maxexp_pool,
  7,
)


# Their derivative is that of the pools, which the rest is tried on.
KINDS = ("wide", "repeated vectors", "zero", "batch")


def some_directions(rng, phi, count=3):
  return jnp.asarray(rng.normal(size=(phi.shape[-1], count)))


def forms_of(psi, directions):
  return jnp.einsum("dr,...de,er->...r", directions, psi, directions)


def value_and_derivatives(f):
  """f of features and directions, and the cotangents of both for some cotangent."""

  def derivatives(phi, directions):
    value, pullback = jax.vjp(f, phi, directions)
    return value, *pullback(jnp.cos(value))

  return derivatives


@pytest.mark.parametrize("name", FORMS)
def test_forms_of_the_explicit_matrix(x64, rng, name):
  forms, pool, parameter = FORMS[name]

  explicit = value_and_derivatives(
    lambda phi, directions: forms_of(pool(phi, parameter), directions)
  )
  implicit = value_and_derivatives(
    lambda phi, directions: forms(phi, directions, parameter)
  )

  for kind in (*KINDS, "tall"):
    phi = jnp.asarray(families.features(rng, kind))
    directions = some_directions(rng, phi)
    want, *want_bars = explicit(phi, directions)
    got, *bars = implicit(phi, directions)
    tolerance = 1e-6 if name == "gamma" else 1e-10
    np.testing.assert_allclose(got, want, atol=tolerance)
    # The slope of Gamma at eigenvalues of zero is left out on either way, but where
    # rounding hides them from one of the two.
    if name != "gamma" or kind in ("wide", "batch"):
      for a, b in zip(bars, want_bars, strict=True):
        np.testing.assert_allclose(a, b, atol=10 * tolerance, rtol=tolerance)


def test_forms_of_the_cooccurrence_matrix(x64, rng):
  phi = jnp.asarray(families.features(rng, "batch"))
  directions = some_directions(rng, phi)
  want = forms_of(ops.cooccurrence(phi), directions)
  np.testing.assert_allclose(ops.cooccurrence_forms(phi, directions), want, rtol=1e-12)
  families.check_gradients(ops.cooccurrence_forms, (phi, directions))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", families.SMOOTH)
def test_gradients(x64, rng, name, kind):
  forms, _, parameter = FORMS[name]
  phi = jnp.asarray(families.features(rng, kind))
  lam = {"lam": 0.1} if kind == "zero" and name != "asinhe" else {}
  families.check_gradients(
    lambda phi, d, p: forms(phi, d, p, **lam),
    (phi, some_directions(rng, phi), parameter),
  )


@pytest.mark.parametrize("name", ["gamma", "maxexp by products"])
def test_gradients_at_full_rank(x64, rng, name):
  forms, _, parameter = FORMS[name]
  phi = jnp.asarray(families.features(rng, "wide") + 0.1)
  families.check_gradients(
    lambda phi, d: forms(phi, d, parameter), (phi, some_directions(rng, phi))
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
def test_finite_for_any_features_at_any_scale(rng, name):
  forms, _, parameter = FORMS[name]
  derivatives = value_and_derivatives(lambda phi, d: forms(phi, d, parameter))
  for kind in KINDS:
    phi = families.features(rng, kind, np.float32)
    directions = some_directions(rng, phi).astype(np.float32)
    for scale in np.float32([1e-15, 1.0, 1e15]):
      for leaf in derivatives(phi * scale, directions):
        assert np.all(np.isfinite(leaf)), (kind, scale)


@pytest.mark.parametrize("name", FORMS)
def test_jit_vmap_and_batch_axes_agree(rng, name):
  forms, _, parameter = FORMS[name]
  phi = jnp.asarray(np.maximum(rng.normal(size=(2, 3, 4, 6)), 0), jnp.float32)
  directions = some_directions(rng, phi).astype(jnp.float32)

  def f(phi):
    return forms(phi, directions, parameter)

  batched = jax.jit(f)(phi)
  assert batched.shape == (2, 3, 3)
  mapped = jax.vmap(jax.vmap(f))(phi)
  np.testing.assert_allclose(mapped, batched, rtol=1e-4, atol=1e-5)


def test_half_precision_is_computed_in_float32(rng):
  phi = jnp.asarray(families.features(rng, "wide"), jnp.bfloat16)
  directions = some_directions(rng, phi).astype(jnp.float32)
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
