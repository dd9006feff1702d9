import functools

from flax import nnx
import flax.linen as nn
from flax.nnx import bridge
import jax
import jax.numpy as jnp
from jax.test_util import check_grads
import numpy as np
import pytest

from pnjax import models
from pnjax import ops
from tests import jaxprs

POWER_NORMS = ("gamma", "maxexp", "asinhe", "sigme")


def a_map(rng, *shape):
  return jnp.asarray(rng.normal(size=shape), jnp.float32)


def run(module, x):
  return module.init_with_output(jax.random.key(0), x)[0]


def test_first_order_is_the_average(rng):
  x = a_map(rng, 2, 3, 4, 5)
  want = jnp.maximum(x, 0).mean(axis=(1, 2))
  np.testing.assert_allclose(run(models.FirstOrderPooling(), x), want, rtol=1e-5)
  unrectified = run(models.FirstOrderPooling(rectify=False), x)
  np.testing.assert_allclose(unrectified, x.mean(axis=(1, 2)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", POWER_NORMS)
def test_first_order_power_norms(rng, name):
  x = a_map(rng, 2, 3, 4, 5)
  mean = jnp.maximum(x, 0).mean(axis=(1, 2))
  got = run(models.FirstOrderPooling(power_norm=name), x)
  want = {
    "gamma": lambda: ops.gamma(mean, 0.5),
    "maxexp": lambda: ops.first_order_maxexp(mean, 20),
    "asinhe": lambda: ops.asinhe(mean, 1e3),
    "sigme": lambda: ops.sigme(mean, 1e3, trace_normalize=False),
  }[name]()
  np.testing.assert_allclose(got, want, rtol=1e-5)


def test_second_order_by_the_operators(rng):
  x = a_map(rng, 2, 3, 4, 5)
  pooling = models.SecondOrderPooling(
    power_norm="sigme", eta_prime=30.0, beta=0.4, num_pivots=3, alpha=0.7, sigma=0.2
  )
  phi = ops.beta_center(jnp.maximum(x, 0).reshape(2, 12, 5), 0.4)
  phi = ops.append_coordinates(phi, ops.spatial_coordinates(3, 4, 3, 0.2, 0.7))
  want = ops.triu_vectorize(ops.sigme(ops.cooccurrence(phi), 30.0))
  got = run(pooling, x)
  assert got.shape == (2, 11 * 12 // 2)
  np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", POWER_NORMS)
def test_spectral(rng, name):
  x = a_map(rng, 2, 2, 2, 5)
  pooling = models.SecondOrderPooling(power_norm=name, spectral=True, triangle=False)
  phi = jnp.maximum(x, 0).reshape(2, 4, 5)
  f = getattr(ops, f"spectral_{name}")
  want = f(ops.cooccurrence(phi), {"gamma": 0.5, "maxexp": 20.0}.get(name, 1e3))
  np.testing.assert_allclose(run(pooling, x), want, rtol=1e-3, atol=1e-4)


def test_patches_make_one_matrix_with_local_coordinates(rng):
  x = a_map(rng, 2, 6, 3, 3, 4)
  pooling = models.SecondOrderPooling(num_pivots=3, triangle=False)
  coords = ops.spatial_coordinates(3, 3, 3, 0.3, 1.0)
  phi = jnp.maximum(x, 0).reshape(2, 6, 9, 4)
  phi = ops.append_coordinates(phi, coords).reshape(2, 54, 10)
  np.testing.assert_allclose(
    run(pooling, x), ops.cooccurrence(phi), rtol=1e-4, atol=1e-6
  )


def test_tokens(rng):
  x = a_map(rng, 2, 12, 5)
  without = models.SecondOrderPooling(power_norm="sigme")
  assert run(without, x).shape == (2, 15)
  on_a_grid = models.SecondOrderPooling(power_norm="sigme", num_pivots=3, grid=(3, 4))
  np.testing.assert_allclose(
    run(on_a_grid, x), run(on_a_grid.clone(grid=None), x.reshape(2, 3, 4, 5))
  )
  with pytest.raises(ValueError, match=r"tokens have no coordinates.*grid"):
    run(on_a_grid.clone(grid=None), x)
  with pytest.raises(ValueError, match=r"12 tokens.*9"):
    run(on_a_grid.clone(grid=(3, 3)), x)
  with pytest.raises(ValueError, match="`grid` is 12, expected its height and width"):
    run(on_a_grid.clone(grid=12), x)


def test_remedies_and_reduction(rng):
  x = a_map(rng, 2, 3, 3, 5)
  pooling = models.SecondOrderPooling(
    power_norm="maxexp", eta=3.0, trace_power=0.5, kappa=0.1, triangle=False
  )
  m = ops.cooccurrence(jnp.maximum(x, 0).reshape(2, 9, 5))
  want = ops.add_residual(ops.trace_compensate(ops.maxexp(m, 3.0), m, 0.5), m, 0.1)
  np.testing.assert_allclose(run(pooling, x), want, rtol=1e-4, atol=1e-6)
  reduced = models.SecondOrderPooling(reduction=3)
  assert run(reduced, x).shape == (2, 6)


def test_parameters_can_be_learned(rng):
  x = a_map(rng, 2, 3, 3, 5)
  pooling = models.SecondOrderPooling(
    power_norm="sigme",
    eta_prime=30.0,
    beta=0.3,
    alpha=0.5,
    num_pivots=3,
    learnable=("eta_prime", "beta", "alpha"),
  )
  variables = pooling.init(jax.random.key(0), x)
  assert set(variables["params"]) == {"log_eta_prime", "beta", "alpha"}
  fixed = run(pooling.clone(learnable=()), x)
  np.testing.assert_allclose(pooling.apply(variables, x), fixed, rtol=1e-4, atol=1e-6)
  grads = jax.grad(lambda v: jnp.sum(pooling.apply(v, x)))(variables)
  for value in jax.tree.leaves(grads):
    assert jnp.isfinite(value) and value != 0


def test_saturation_is_reported_on_request(rng):
  x = a_map(rng, 2, 3, 3, 5)
  for eta_prime, low, high in ((1e-2, 0.0, 0.0), (1e6, 0.9, 1.0)):
    pooling = models.SecondOrderPooling(power_norm="sigme", eta_prime=eta_prime)
    _, state = pooling.apply({}, x, mutable=["intermediates"])
    (saturation,) = state["intermediates"]["saturation"]
    assert low <= saturation <= high


@pytest.mark.parametrize("reduction", [None, 3])
def test_bfloat16_maps_are_pooled_in_float32(rng, reduction):
  x = a_map(rng, 2, 3, 3, 5).astype(jnp.bfloat16)
  got = run(models.SecondOrderPooling(power_norm="sigme", reduction=reduction), x)
  assert got.dtype == jnp.float32


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
    ({"spectral": True}, "`power_norm` is None"),
    ({"power_norm": "sigme", "rank": 8}, "`rank` is 8.*element-wise sigme.*spectral"),
    ({"rank": 0}, "`rank` is 0, expected a whole number of at least 1"),
    ({"rank": 2.5}, "`rank` is 2.5, expected a whole number"),
    ({"reduction": 0}, "`reduction` is 0, expected a whole number"),
    ({"rank": 8, "triangle": False}, "no matrix to return"),
  ],
)
def test_bad_attributes(rng, attributes, match):
  with pytest.raises(ValueError, match=match):
    run(models.SecondOrderPooling(**attributes), a_map(rng, 2, 3, 3, 5))


LOW_RANK = {
  "sop": {},
  **{name: {"power_norm": name, "spectral": True} for name in POWER_NORMS},
  "everything": {
    "power_norm": "sigme",
    "spectral": True,
    "eta_prime": 9.0,
    "beta": 0.4,
    "num_pivots": 3,
    "trace_power": 0.5,
    "kappa": 0.1,
    "reduction": 4,
    "learnable": ("eta_prime", "beta", "alpha"),
  },
}


@pytest.mark.parametrize("name", LOW_RANK)
def test_low_rank_is_a_dense_layer_with_weights_of_low_rank(rng, name):
  """Logits Σᵣ s_cr pᵣᵀΨpᵣ equal ⟨W_c, Ψ⟩ with W_c = Σᵣ s_cr pᵣpᵣᵀ."""
  x = a_map(rng, 2, 3, 2, 7)
  pooling = models.SecondOrderPooling(**LOW_RANK[name], rank=5)
  forms, variables = pooling.init_with_output(jax.random.key(0), x)
  assert forms.shape == (2, 5)
  params = dict(variables["params"])
  directions = params.pop("directions")
  psi = pooling.clone(rank=None, triangle=False).apply({"params": params}, x)
  scales = a_map(rng, 5, 4)
  weights = jnp.einsum("dr,rc,er->dec", directions, scales, directions)
  want = jnp.einsum("bde,dec->bc", psi, weights)
  np.testing.assert_allclose(forms @ scales, want, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", LOW_RANK)
def test_low_rank_forms_no_matrix(rng, name):
  """Neither forward nor backward, with d' = 17 + 2Z = 23."""
  attributes = LOW_RANK[name] | {"reduction": None, "num_pivots": 3}
  pooling = models.SecondOrderPooling(**attributes, rank=5)
  x = a_map(rng, 2, 3, 2, 17)

  def gradients(pooling, variables, x):
    return jax.grad(lambda v, x: jnp.sum(pooling.apply(v, x)), (0, 1))(variables, x)

  def has_matrix(pooling):
    variables = pooling.init(jax.random.key(0), x)
    return jaxprs.has_shape(
      functools.partial(gradients, pooling), (variables, x), (23, 23)
    )

  assert not has_matrix(pooling)
  assert has_matrix(pooling.clone(rank=None))


def test_bad_shape(rng):
  with pytest.raises(ValueError, match=r"\(3, 5\).*\[B, H, W, d\]"):
    run(models.SecondOrderPooling(), a_map(rng, 3, 5))


def test_from_nnx(rng):
  """A Linen pooling layer in an NNX model, through `nnx.bridge`."""
  x = a_map(rng, 2, 3, 3, 5)
  pooling = models.SecondOrderPooling(power_norm="sigme", learnable=("eta_prime",))
  wrapped = bridge.ToNNX(pooling, rngs=nnx.Rngs(0)).lazy_init(x)
  np.testing.assert_allclose(wrapped(x), run(pooling, x), rtol=1e-5)
  grads = nnx.grad(lambda m: jnp.sum(m(x)))(wrapped)
  assert all(jnp.all(jnp.isfinite(g)) for g in jax.tree.leaves(grads))


POOLINGS = {
  "baseline": models.FirstOrderPooling(),
  "fop_asinhe": models.FirstOrderPooling(power_norm="asinhe"),
  "sop": models.SecondOrderPooling(),
  **{
    f"sop_sc_{name}": models.SecondOrderPooling(power_norm=name, num_pivots=3)
    for name in POWER_NORMS
  },
  **{
    f"sop_sc_spec_{name}": models.SecondOrderPooling(
      power_norm=name, spectral=True, num_pivots=3
    )
    for name in POWER_NORMS
  },
  "low_rank_sop": models.SecondOrderPooling(rank=5),
  "low_rank_everything": models.SecondOrderPooling(**LOW_RANK["everything"], rank=5),
}


@pytest.mark.parametrize("name", POOLINGS)
def test_gradients_reach_the_first_convolution(rng, name):
  backbone = models.ResNet(stage_sizes=(1,), width=4)
  model = models.Classifier(backbone, POOLINGS[name], num_classes=3)
  x = a_map(rng, 2, 2, 32, 32, 3)  # Two patches of each picture.
  variables = model.init(jax.random.key(0), x)

  def loss(params, x):
    logits = model.apply({**variables, "params": params}, x, train=True)
    return jnp.mean(jax.nn.log_softmax(logits)[:, 0])

  # The dense layer starts from zero and lets no gradient through at first.
  params = jax.tree.map(lambda p: p, variables["params"])
  params["head"]["kernel"] = a_map(rng, *params["head"]["kernel"].shape)
  grads = jax.jit(jax.grad(loss))(params, x)
  first = grads["backbone"]["conv1"]["kernel"]
  assert jnp.all(jnp.isfinite(first)) and jnp.any(first != 0)


@pytest.mark.parametrize("name", POOLINGS)
def test_a_head_on_a_zero_map_trains_on(name):
  head = nn.Sequential([nn.Dense(4), POOLINGS[name], nn.Dense(2)])
  x = jnp.zeros((2, 3, 3, 4))
  variables = head.init(jax.random.key(0), x)

  @jax.jit
  def gradients(variables):
    return jax.grad(lambda v: jnp.sum(jnp.square(head.apply(v, x) - 1)))(variables)

  for _ in range(3):
    grads = gradients(variables)
    assert all(jnp.all(jnp.isfinite(g)) for g in jax.tree.leaves(grads))
    variables = jax.tree.map(lambda v, g: v - 1e-3 * g, variables, grads)


@pytest.mark.parametrize(
  ("power_norm", "expected"),
  [
    ("signed_sqrt", lambda m: ops.signed_sqrt(m)),
    ("matrix_log", lambda m: ops.matrix_log(m, 1e-3)),
    ("newton_schulz_sqrt", lambda m: ops.newton_schulz_sqrt(m)),
  ],
)
def test_baselines_of_the_literature(rng, power_norm, expected):
  x = rng.standard_normal((2, 4, 4, 6)).astype(np.float32)
  pooling = models.SecondOrderPooling(power_norm=power_norm, lam=1e-3, triangle=False)
  m = ops.cooccurrence(np.maximum(x, 0).reshape(2, 16, 6))
  np.testing.assert_allclose(pooling.apply({}, x), expected(m), rtol=1e-5, atol=1e-6)


def test_baselines_have_no_spectral_form():
  pooling = models.SecondOrderPooling(power_norm="signed_sqrt", spectral=True)
  with pytest.raises(ValueError, match="`spectral` is True, but `power_norm` is 'sig"):
    pooling.apply({}, np.ones((1, 2, 2, 3), np.float32))


def test_a_learned_beta_comes_back_into_its_interval(rng):
  pooling = models.SecondOrderPooling(
    power_norm="sigme", eta_prime=50.0, learnable=("beta",)
  )
  x = a_map(rng, 2, 3, 3, 5)

  def value(beta):
    return jnp.sum(pooling.apply({"params": {"beta": beta}}, x))

  outside, edge = jnp.float32(-0.01), jnp.float32(0)
  np.testing.assert_allclose(value(outside), value(edge), rtol=1e-6)
  np.testing.assert_allclose(jax.grad(value)(outside), jax.grad(value)(edge), rtol=1e-5)
  assert jax.grad(value)(outside) != 0


@pytest.mark.parametrize("power_norm", ["gamma", "maxexp"])
def test_negative_features_are_refused_where_they_are_undefined(rng, power_norm):
  x = a_map(rng, 2, 3, 3, 5)
  for layer in (models.FirstOrderPooling, models.SecondOrderPooling):
    with pytest.raises(ValueError, match="`rectify` is False, expected True"):
      layer(power_norm=power_norm, rectify=False).apply({}, x)
  models.SecondOrderPooling(power_norm=power_norm, rectify=False, spectral=True).apply(
    {}, x
  )


def test_an_empty_batch():
  pooling = models.SecondOrderPooling(power_norm="sigme", spectral=True)
  assert pooling.apply({}, jnp.zeros((0, 4, 4, 6))).shape == (0, 21)


@pytest.mark.parametrize(
  "layer", [models.FirstOrderPooling(), models.SecondOrderPooling()]
)
def test_a_map_without_positions(layer):
  with pytest.raises(ValueError, match="expected at least one position"):
    layer.apply({}, jnp.zeros((2, 0, 4, 6)))


def test_gradients_in_float64(rng, x64):
  x = jnp.asarray(rng.uniform(0.1, 1, (1, 3, 2, 4)))
  layer = models.SecondOrderPooling(
    power_norm="sigme", eta_prime=3.0, beta=0.4, num_pivots=2, reduction=3
  )
  variables = layer.init(jax.random.key(0), x)
  assert layer.apply(variables, x).dtype == jnp.float64
  check_grads(lambda x: layer.apply(variables, x), (x,), order=1, modes=("rev",))
