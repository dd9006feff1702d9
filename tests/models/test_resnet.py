import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax.models import ResNet50
from pnjax.models import TinyResNet


def init(model, size=64):
  return model.init(jax.random.key(0), jnp.zeros((1, size, size, 3)))


def pictures(rng, batch=2, size=64):
  return jnp.asarray(rng.standard_normal((batch, size, size, 3), dtype=np.float32))


def test_resnet50_has_the_parameters_of_torchvision():
  model = ResNet50(num_classes=1000)
  image = jax.ShapeDtypeStruct((1, 224, 224, 3), jnp.float32)
  variables = jax.eval_shape(model.init, jax.random.key(0), image)
  assert sum(x.size for x in jax.tree.leaves(variables["params"])) == 25_557_032
  layers = variables["params"]["layer1"]["block0"]
  assert layers["conv2"]["kernel"].shape == (3, 3, 64, 64)
  assert layers["conv_downsample"]["kernel"].shape == (1, 1, 64, 256)


@pytest.mark.parametrize("size, side", [(224, 7), (336, 11), (448, 14)])
def test_resnet50_map(size, side):
  image = jax.ShapeDtypeStruct((2, size, size, 3), jnp.float32)
  out, _ = jax.eval_shape(ResNet50().init_with_output, jax.random.key(0), image)
  assert out.shape == (2, side, side, 2048)


def test_stages_end_in_the_map(rng):
  model, x = TinyResNet(), pictures(rng)
  variables = init(model)
  stages = model.apply(variables, x, method="stages")
  assert list(stages) == ["stem", "layer1", "layer2"]
  np.testing.assert_array_equal(stages["layer2"], model.apply(variables, x))


def test_variants_differ_only_in_where_they_stride(rng):
  x = pictures(rng)
  v1, v15 = TinyResNet(variant="v1"), TinyResNet(variant="v1.5")
  variables = init(v1)
  first, second = (m.apply(variables, x, method="stages") for m in (v1, v15))
  np.testing.assert_array_equal(first["layer1"], second["layer1"])
  assert not np.allclose(first["layer2"], second["layer2"], rtol=0.1)


def test_unknown_variant_is_refused():
  with pytest.raises(ValueError, match=r"`variant` is 'v2', expected one of v1, v1.5"):
    init(TinyResNet(variant="v2"))


def test_input_that_is_no_picture_is_refused():
  with pytest.raises(ValueError, match=r"expected pictures \[B, H, W, 3\]"):
    TinyResNet().init(jax.random.key(0), jnp.zeros((3, 64, 64)))


def test_logits_need_a_classifier(rng):
  x, model = pictures(rng), TinyResNet(num_classes=5)
  assert model.apply(init(model), x, method="logits").shape == (2, 5)
  with pytest.raises(ValueError, match="no classifier"):
    TinyResNet().apply(init(TinyResNet()), x, method="logits")


def test_bfloat16_computes_in_half_and_keeps_parameters_in_float32(rng):
  x, model = pictures(rng), TinyResNet(num_classes=5, dtype=jnp.bfloat16)
  variables = init(model)
  assert {leaf.dtype for leaf in jax.tree.leaves(variables)} == {jnp.dtype("float32")}
  half = model.apply(variables, x)
  assert half.dtype == jnp.bfloat16
  assert model.apply(variables, x, method="logits").dtype == jnp.float32
  full = TinyResNet(num_classes=5).apply(variables, x)
  np.testing.assert_allclose(half.astype(jnp.float32), full, atol=0.05 * full.max())


def test_statistics_are_held_fixed_by_default(rng):
  model, x = TinyResNet(), pictures(rng)
  variables = init(model)
  out, updates = model.apply(variables, x, train=True, mutable=["batch_stats"])
  np.testing.assert_array_equal(out, model.apply(variables, x))
  jax.tree.map(
    np.testing.assert_array_equal, updates["batch_stats"], variables["batch_stats"]
  )


def test_statistics_of_the_batch_are_used_and_kept_when_asked_for(rng):
  model, x = TinyResNet(batch_statistics=True, momentum=0.0), pictures(rng)
  variables = init(model)
  out, updates = model.apply(variables, x, train=True, mutable=["batch_stats"])
  assert not np.allclose(out, model.apply(variables, x), rtol=0.1)
  # Without momentum, the running statistics are those of this very batch, but for
  # the variance, which is kept unbiased.
  again = model.apply(variables | updates, x)
  np.testing.assert_allclose(again, out, atol=0.1)


def test_synchronized_statistics_equal_those_of_the_whole_batch(rng):
  x = pictures(rng, batch=4)
  model = TinyResNet(batch_statistics=True)
  variables = init(model)
  whole = model.apply(variables, x, train=True, mutable=["batch_stats"])
  synchronized = model.clone(axis_name="batch")

  def step(x):
    return synchronized.apply(variables, x, train=True, mutable=["batch_stats"])

  out, updates = jax.pmap(step, axis_name="batch")(x.reshape(2, 2, 64, 64, 3))
  np.testing.assert_allclose(out.reshape(whole[0].shape), whole[0], atol=1e-5)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a[0], b, rtol=1e-4, atol=1e-5),
    updates["batch_stats"],
    whole[1]["batch_stats"],
  )


def test_batch_statistics_equal_pytorch(rng):
  torch = pytest.importorskip("torch")
  from pnjax.models._layers import BatchNorm

  x = rng.standard_normal((3, 5, 4, 2), dtype=np.float32) * 2 + 1
  g = rng.standard_normal(x.shape, dtype=np.float32)
  reference = torch.nn.BatchNorm2d(2, eps=0.1, momentum=0.1)
  x_torch = torch.from_numpy(x).requires_grad_()
  expected = reference(x_torch.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
  expected.backward(torch.from_numpy(g))

  norm = BatchNorm(2, epsilon=0.1)
  variables = norm.init(jax.random.key(0), x)

  def apply(x):
    return norm.apply(variables, x, mutable=["batch_stats"])

  actual, pullback, updates = jax.vjp(apply, jnp.asarray(x), has_aux=True)
  running = updates["batch_stats"]
  np.testing.assert_allclose(actual, expected.detach(), atol=1e-5)
  np.testing.assert_allclose(pullback(jnp.asarray(g))[0], x_torch.grad, atol=1e-5)
  np.testing.assert_allclose(running["mean"], reference.running_mean, rtol=1e-5)
  np.testing.assert_allclose(running["var"], reference.running_var, rtol=1e-5)
