import functools
import math

import jax
import jax.numpy as jnp
from jax.test_util import check_grads
import numpy as np
import pytest

from pnjax import models
from pnjax import ops
from tests import jaxprs
from tests.models.poolings import LOW_RANK
from tests.models.poolings import feature_maps
from tests.models.poolings import pool
from tests.models.poolings import pool_and_compare


def test_layer_equals_its_operators(rng):
  x = feature_maps(rng, 2, 3, 4, 5)
  pooling = models.SecondOrderPooling(
    power_norm="sigme", eta_prime=30.0, beta=0.4, num_pivots=3, alpha=0.7, sigma=0.2
  )

  def reference(x):
    phi = ops.beta_center(jnp.maximum(x, 0).reshape(2, 12, 5), 0.4)
    phi = ops.append_coordinates(phi, ops.spatial_coordinates(3, 4, 3, 0.2, 0.7))
    return ops.triu_vectorize(ops.sigme(ops.cooccurrence(phi), 30.0))

  assert jax.eval_shape(reference, x).shape == (2, 11 * 12 // 2)
  pool_and_compare(pooling, reference, x)


@pytest.mark.parametrize("name", ops.POWER_NORMS)
def test_elementwise_power_norms(rng, name):
  norm = ops.POWER_NORMS[name]

  def reference(x):
    m = ops.cooccurrence(jnp.maximum(x, 0).reshape(2, 4, 5))
    return norm.matrix(m, norm.default)

  x = feature_maps(rng, 2, 2, 2, 5)
  pooling = models.SecondOrderPooling(power_norm=name, triangle=False)
  pool_and_compare(pooling, reference, x)


@pytest.mark.parametrize("name", ops.POWER_NORMS)
def test_spectral_power_norms(rng, name):
  def reference(x):
    m = ops.cooccurrence(jnp.maximum(x, 0).reshape(2, 4, 5))
    function = getattr(ops, f"spectral_{name}")
    return function(m, float(ops.POWER_NORMS[name].default))

  x = feature_maps(rng, 2, 2, 2, 5)
  pooling = models.SecondOrderPooling(power_norm=name, spectral=True, triangle=False)
  pool_and_compare(pooling, reference, x, rtol=1e-3, atol=1e-4)


def test_patches_make_one_matrix_with_local_coordinates(rng):
  x = feature_maps(rng, 2, 6, 3, 3, 4)
  pooling = models.SecondOrderPooling(num_pivots=3, triangle=False)

  def reference(x):
    coords = ops.spatial_coordinates(3, 3, 3, 0.3, 1.0)
    phi = jnp.maximum(x, 0).reshape(2, 6, 9, 4)
    phi = ops.append_coordinates(phi, coords).reshape(2, 54, 10)
    return ops.cooccurrence(phi)

  pool_and_compare(pooling, reference, x)


def test_tokens(rng):
  x = feature_maps(rng, 2, 12, 5)
  without = models.SecondOrderPooling(power_norm="sigme")
  assert pool(without, x).shape == (2, 15)
  on_a_grid = models.SecondOrderPooling(power_norm="sigme", num_pivots=3, grid=(3, 4))
  np.testing.assert_allclose(
    pool(on_a_grid, x), pool(on_a_grid.clone(grid=None), x.reshape(2, 3, 4, 5))
  )
  with pytest.raises(ValueError, match=r"tokens have no coordinates.*grid"):
    pool(on_a_grid.clone(grid=None), x)
  with pytest.raises(ValueError, match=r"12 tokens.*9"):
    pool(on_a_grid.clone(grid=(3, 3)), x)
  with pytest.raises(ValueError, match=r"`grid` is 12, expected \(height, width\)"):
    pool(on_a_grid.clone(grid=12), x)


def test_trace_compensation_and_residual(rng):
  x = feature_maps(rng, 2, 3, 3, 5)
  pooling = models.SecondOrderPooling(
    power_norm="maxexp", eta=3.0, trace_power=0.5, kappa=0.1, triangle=False
  )

  def reference(x):
    m = ops.cooccurrence(jnp.maximum(x, 0).reshape(2, 9, 5))
    return ops.add_residual(ops.trace_compensate(ops.maxexp(m, 3.0), m, 0.5), m, 0.1)

  pool_and_compare(pooling, reference, x)


def test_reduction(rng):
  x = feature_maps(rng, 2, 3, 3, 5)
  assert pool(models.SecondOrderPooling(reduction=3), x).shape == (2, 6)


def test_parameters_can_be_learned(rng):
  x = feature_maps(rng, 2, 3, 3, 5)
  pooling = models.SecondOrderPooling(
    power_norm="sigme",
    eta_prime=30.0,
    beta=0.3,
    alpha=0.5,
    num_pivots=3,
    learnable=("eta_prime", "beta", "alpha"),
  )
  variables = jax.jit(pooling.init)(jax.random.key(0), x)
  assert set(variables["params"]) == {"log_eta_prime", "beta", "alpha"}

  @jax.jit
  def output_and_gradients(variables):
    out, vjp = jax.vjp(lambda v: pooling.apply(v, x), variables)
    return out, vjp(jnp.ones_like(out))

  out, grads = output_and_gradients(variables)
  fixed = pool(pooling.clone(learnable=()), x)
  np.testing.assert_allclose(out, fixed, rtol=1e-4, atol=1e-6)
  for value in jax.tree.leaves(grads):
    assert np.isfinite(value) and value != 0


def test_learned_beta_returns_to_its_interval(rng):
  pooling = models.SecondOrderPooling(
    power_norm="sigme", eta_prime=50.0, learnable=("beta",)
  )
  x = feature_maps(rng, 2, 3, 3, 5)

  @jax.jit
  @jax.value_and_grad
  def value_and_grad(beta):
    return jnp.sum(pooling.apply({"params": {"beta": beta}}, x))

  outside, grad_outside = value_and_grad(jnp.float32(-0.01))
  edge, grad_edge = value_and_grad(jnp.float32(0))
  np.testing.assert_allclose(outside, edge, rtol=1e-6)
  np.testing.assert_allclose(grad_outside, grad_edge, rtol=1e-5)
  assert grad_outside != 0


@pytest.mark.parametrize("eta_prime, low, high", [(1e-2, 0.0, 0.0), (1e6, 0.9, 1.0)])
def test_saturation_is_reported_on_request(rng, eta_prime, low, high):
  x = feature_maps(rng, 2, 3, 3, 5)
  pooling = models.SecondOrderPooling(power_norm="sigme", eta_prime=eta_prime)
  apply = jax.jit(lambda x: pooling.apply({}, x, mutable=["intermediates"]))
  _, state = apply(x)
  (saturation,) = state["intermediates"]["saturation"]
  assert low <= saturation <= high


@pytest.mark.parametrize("reduction", [None, 3])
def test_bfloat16_is_pooled_in_float32(rng, reduction):
  x = feature_maps(rng, 2, 3, 3, 5).astype(jnp.bfloat16)
  pooling = models.SecondOrderPooling(power_norm="sigme", reduction=reduction)
  assert pool(pooling, x).dtype == jnp.float32


def test_empty_batch():
  pooling = models.SecondOrderPooling(power_norm="sigme", spectral=True)
  assert pool(pooling, jnp.zeros((0, 4, 4, 6))).shape == (0, 21)


def test_gradients_in_float64(rng, x64):
  x = jnp.asarray(rng.uniform(0.1, 1, (1, 3, 2, 4)))
  layer = models.SecondOrderPooling(
    power_norm="sigme", eta_prime=3.0, beta=0.4, num_pivots=2, reduction=3
  )
  variables = jax.jit(layer.init)(jax.random.key(0), x)
  apply = jax.jit(lambda x: layer.apply(variables, x))
  assert apply(x).dtype == jnp.float64
  check_grads(apply, (x,), order=1, modes=("rev",))


@pytest.mark.parametrize(
  "attributes,match",
  [
    ({"power_norm": "sigmoid"}, "'sigmoid'.*'sigme'"),
    ({"power_norm": "sigme", "eta": 3.0}, "`eta` is 3.0.*it uses `eta_prime`"),
    ({"eta": 3.0}, "`eta` is 3.0.*does not use it"),
    ({"power_norm": "gamma", "beta": 0.5}, "`beta` is 0.5.*element-wise gamma"),
    ({"power_norm": "maxexp", "learnable": ("beta",)}, "element-wise maxexp"),
    ({"power_norm": "sigme", "beta": 1.5}, "from 0 to 1"),
    ({"power_norm": "sigme", "learnable": ("eta",)}, "'eta'.*eta_prime"),
    ({"power_norm": "sigme", "learnable": "beta"}, r"expected a tuple: \('beta',\)"),
    ({"spectral": True}, "`power_norm` is None"),
    ({"power_norm": "sigme", "rank": 8}, "`rank` is 8.*element-wise sigme.*spectral"),
    ({"rank": 0}, "`rank` is 0, expected a whole number of at least 1"),
    ({"rank": 2.5}, "`rank` is 2.5, expected a whole number"),
    ({"reduction": 0}, "`reduction` is 0, expected a whole number"),
    ({"rank": 8, "triangle": False}, "`rank` is 8, expected None for `triangle=False`"),
    ({"reduction": "4"}, "`reduction` is 4, expected a whole number"),
    ({"power_norm": "sigme", "beta": math.nan}, "`beta` is nan, expected a number"),
    ({"num_pivots": 1}, "`num_pivots` is 1, expected 0, or at least 2"),
    ({"num_pivots": -1}, "`num_pivots` is -1, expected 0, or at least 2"),
    ({"num_pivots": 3, "sigma": 0.0}, "`sigma` is 0.0, expected > 0"),
    ({"num_pivots": 3, "alpha": math.nan}, "`alpha` is nan, expected a finite number"),
    ({"power_norm": "sigme", "eta_prime": -1.0}, "`eta_prime` is -1.0, expected > 0"),
    ({"power_norm": "sigme", "lam": -1.0}, "`lam` is -1.0, expected >= 0"),
    ({"power_norm": "sigme", "lam": None}, "`lam` is None, expected a number"),
    ({"trace_power": 0}, "`power` is 0, expected > 0"),
    ({"kappa": math.inf}, "`kappa` is inf, expected a finite number"),
  ],
)
def test_bad_attributes(rng, attributes, match):
  with pytest.raises((TypeError, ValueError), match=match):
    pool(models.SecondOrderPooling(**attributes), feature_maps(rng, 2, 3, 3, 5))


@pytest.mark.parametrize("name", ["beta", "alpha", "sigma", "trace_power", "kappa"])
@pytest.mark.parametrize("rank", [None, 2])
def test_attributes_that_are_no_numbers(rng, name, rank):
  pooling = models.SecondOrderPooling(**{name: "x"}, rank=rank)
  x = rng.random((1, 3, 3, 4), np.float32)
  with pytest.raises(TypeError, match=f"^`{name}` is 'x', expected a number"):
    pooling.init(jax.random.key(0), x)


@pytest.mark.parametrize("name", LOW_RANK)
def test_low_rank_equals_a_dense_layer_with_weights_of_low_rank(rng, name):
  """Logits Σᵣ s_cr pᵣᵀΨpᵣ equal ⟨W_c, Ψ⟩ with W_c = Σᵣ s_cr pᵣpᵣᵀ."""
  x = feature_maps(rng, 2, 3, 2, 7)
  scales = feature_maps(rng, 5, 4)
  pooling = models.SecondOrderPooling(**LOW_RANK[name], rank=5)

  @jax.jit
  def both(x, scales):
    forms, variables = pooling.init_with_output(jax.random.key(0), x)
    params = dict(variables["params"])
    directions = params.pop("directions")
    psi = pooling.clone(rank=None, triangle=False).apply({"params": params}, x)
    weights = jnp.einsum("dr,rc,er->dec", directions, scales, directions)
    return forms, jnp.einsum("bde,dec->bc", psi, weights)

  forms, expected = both(x, scales)
  assert forms.shape == (2, 5)
  np.testing.assert_allclose(forms @ scales, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", LOW_RANK)
def test_low_rank_forms_no_matrix(rng, name):
  """Neither forward nor backward, with d' = 17 + 2Z = 23."""
  attributes = LOW_RANK[name] | {"reduction": None, "num_pivots": 3}
  pooling = models.SecondOrderPooling(**attributes, rank=5)
  x = feature_maps(rng, 2, 3, 2, 17)

  def gradients(pooling, variables, x):
    return jax.grad(lambda v, x: jnp.sum(pooling.apply(v, x)), (0, 1))(variables, x)

  def has_matrix(pooling):
    variables = jax.eval_shape(lambda: pooling.init(jax.random.key(0), x))
    return jaxprs.has_shape(
      functools.partial(gradients, pooling), (variables, x), (23, 23)
    )

  assert not has_matrix(pooling)
  assert has_matrix(pooling.clone(rank=None))


@pytest.mark.parametrize(
  ("power_norm", "function"),
  [
    ("signed_sqrt", ops.signed_sqrt),
    ("matrix_log", lambda m: ops.matrix_log(m, 1e-3)),
    ("newton_schulz_sqrt", ops.newton_schulz_sqrt),
  ],
)
def test_baselines(rng, power_norm, function):
  def reference(x):
    return function(ops.cooccurrence(jnp.maximum(x, 0).reshape(2, 16, 6)))

  x = feature_maps(rng, 2, 4, 4, 6)
  pooling = models.SecondOrderPooling(power_norm=power_norm, lam=1e-3, triangle=False)
  pool_and_compare(pooling, reference, x, rtol=1e-5)


def test_baselines_have_no_spectral_form():
  pooling = models.SecondOrderPooling(power_norm="signed_sqrt", spectral=True)
  with pytest.raises(ValueError, match="`spectral` is True, but `power_norm` is 'sig"):
    pooling.apply({}, np.ones((1, 2, 2, 3), np.float32))
