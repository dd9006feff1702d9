import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import models
from pnjax.models import ResNet18
from pnjax.models import ResNet50
from pnjax.models import TinyResNet
from pnjax.models._layers import BatchNorm


@pytest.fixture(scope="module")
def variables():
  """Variables of every `TinyResNet` with 5 classes."""
  model = TinyResNet(num_classes=5)
  return jax.jit(model.init)(jax.random.key(0), jnp.zeros((1, 64, 64, 3)))


@pytest.fixture(scope="module")
def images():
  rng = np.random.default_rng(0)
  return jnp.asarray(rng.standard_normal((2, 64, 64, 3)), jnp.float32)


@pytest.fixture(scope="module")
def stages(variables, images):
  """Feature maps of `TinyResNet`."""
  return apply(TinyResNet(), variables, images, method="stages")


def apply(model, variables, x, **kwargs):
  return jax.jit(lambda v, x: model.apply(v, x, **kwargs))(variables, x)


@pytest.mark.parametrize(
  "name, expected",
  [
    ("resnet18", 11_689_512),
    ("resnet34", 21_797_672),
    ("resnet50", 25_557_032),
    ("resnet101", 44_549_160),
    ("resnet152", 60_192_808),
  ],
)
def test_number_of_parameters_is_that_of_torchvision(name, expected):
  model = models.BACKBONES[name](num_classes=1000)
  image = jax.ShapeDtypeStruct((1, 32, 32, 3), jnp.float32)
  variables = jax.eval_shape(model.init, jax.random.key(0), image)
  assert sum(x.size for x in jax.tree.leaves(variables["params"])) == expected


def test_basic_blocks_stride_in_their_first_convolution(images):
  # No convolution of a basic block leaves out what is before it, in either variant.
  assert [ResNet18().stride_after(f"layer{i}") for i in (1, 2, 3, 4)] == [1] * 4
  assert [ResNet50().stride_after(f"layer{i}") for i in (1, 2, 3, 4)] == [2, 2, 2, 1]
  model = ResNet18(stage_sizes=(1, 1), width=8)
  variables = jax.eval_shape(model.init, jax.random.key(0), images)
  block = variables["params"]["layer2"]["block0"]
  kernels = {name: p["kernel"].shape for name, p in block.items() if "kernel" in p}
  assert kernels == {
    "conv1": (3, 3, 8, 16),
    "conv2": (3, 3, 16, 16),
    "conv_downsample": (1, 1, 8, 16),
  }


@pytest.mark.parametrize("size, side", [(224, 7), (336, 11), (448, 14)])
def test_shape_of_the_last_feature_map(size, side):
  image = jax.ShapeDtypeStruct((2, size, size, 3), jnp.float32)
  out, _ = jax.eval_shape(ResNet50().init_with_output, jax.random.key(0), image)
  assert out.shape == (2, side, side, 2048)


def test_last_stage_is_the_output(variables, images, stages):
  np.testing.assert_array_equal(
    stages["layer2"], apply(TinyResNet(), variables, images)
  )


def test_stages_are_in_order(variables, images):
  names = []

  def stages(variables, x):
    names.extend(TinyResNet().apply(variables, x, method="stages"))

  jax.eval_shape(stages, variables, images)
  assert names == ["stem", "layer1", "layer2"]


def test_variants_differ_only_in_where_they_stride(variables, images, stages):
  v15 = apply(TinyResNet(variant="v1.5"), variables, images, method="stages")
  np.testing.assert_array_equal(stages["layer1"], v15["layer1"])
  assert not np.allclose(stages["layer2"], v15["layer2"], rtol=0.1)


def test_unknown_variant_is_refused(variables, images):
  with pytest.raises(ValueError, match=r"`variant` is 'v2', expected one of v1, v1.5"):
    TinyResNet(variant="v2").apply(variables, images)


def test_input_that_is_no_image_is_refused(variables):
  with pytest.raises(ValueError, match=r"expected images \[B, H, W, 3\]"):
    TinyResNet().apply(variables, jnp.zeros((3, 64, 64)))


def test_logits(variables, images, stages):
  actual = apply(TinyResNet(num_classes=5), variables, images, method="logits")
  fc = variables["params"]["fc"]
  expected = np.mean(stages["layer2"], axis=(1, 2)) @ fc["kernel"] + fc["bias"][None]
  assert actual.shape == (2, 5)
  np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_logits_need_a_classifier(variables, images):
  with pytest.raises(ValueError, match="no classifier"):
    TinyResNet().apply(variables, images, method="logits")


def test_bfloat16_computes_in_half_precision_with_float32_parameters(
  variables, images, stages
):
  model = TinyResNet(num_classes=5, dtype=jnp.bfloat16)
  initialized = jax.eval_shape(model.init, jax.random.key(0), images)
  assert {leaf.dtype for leaf in jax.tree.leaves(initialized)} == {jnp.dtype("float32")}
  half = apply(model, variables, images)
  assert half.dtype == jnp.bfloat16
  logits = jax.eval_shape(
    lambda v, x: model.apply(v, x, method="logits"), variables, images
  )
  assert logits.dtype == jnp.float32
  full = stages["layer2"]
  np.testing.assert_allclose(half.astype(jnp.float32), full, atol=0.05 * full.max())


def test_batch_norm_statistics_are_fixed_by_default(variables, images, stages):
  kwargs = {"train": True, "mutable": ["batch_stats"]}
  out, updates = apply(TinyResNet(), variables, images, **kwargs)
  np.testing.assert_array_equal(out, stages["layer2"])
  jax.tree.map(
    np.testing.assert_array_equal, updates["batch_stats"], variables["batch_stats"]
  )


def test_batch_statistics_are_used_and_stored_on_request(variables, images, stages):
  model = TinyResNet(batch_statistics=True, momentum=0.0)
  kwargs = {"train": True, "mutable": ["batch_stats"]}
  out, updates = apply(model, variables, images, **kwargs)
  assert not np.allclose(out, stages["layer2"], rtol=0.1)
  # Without momentum, the running statistics are those of this batch, except that the
  # variance is stored unbiased.
  again = apply(model, variables | updates, images)
  np.testing.assert_allclose(again, out, atol=0.1)


def test_synchronized_statistics_equal_those_of_the_whole_batch(rng, variables):
  x = jnp.asarray(rng.standard_normal((4, 32, 32, 3)), jnp.float32)
  model = TinyResNet(batch_statistics=True)
  kwargs = {"train": True, "mutable": ["batch_stats"]}
  expected, expected_updates = apply(model, variables, x, **kwargs)
  synchronized = model.clone(axis_name="batch")

  def step(x):
    return synchronized.apply(variables, x, **kwargs)

  out, updates = jax.pmap(step, axis_name="batch")(x.reshape(2, 2, 32, 32, 3))
  np.testing.assert_allclose(out.reshape(expected.shape), expected, atol=1e-5)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a[0], b, rtol=1e-4, atol=1e-5),
    updates["batch_stats"],
    expected_updates["batch_stats"],
  )


def test_batch_statistics_equal_pytorch(rng):
  torch = pytest.importorskip("torch")
  x = rng.standard_normal((3, 5, 4, 2), dtype=np.float32) * 2 + 1
  g = rng.standard_normal(x.shape, dtype=np.float32)
  reference = torch.nn.BatchNorm2d(2, eps=0.1, momentum=0.1)
  x_torch = torch.from_numpy(x).requires_grad_()
  expected = reference(x_torch.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)
  expected.backward(torch.from_numpy(g))

  norm = BatchNorm(2, epsilon=0.1)

  @jax.jit
  def outputs_and_gradient(x, g):
    variables = norm.init(jax.random.key(0), x)

    def apply(x):
      return norm.apply(variables, x, mutable=["batch_stats"])

    out, vjp, updates = jax.vjp(apply, x, has_aux=True)
    return out, updates["batch_stats"], vjp(g)[0]

  actual, running, gradient = outputs_and_gradient(x, g)
  np.testing.assert_allclose(actual, expected.detach(), atol=1e-5)
  np.testing.assert_allclose(gradient, x_torch.grad, atol=1e-5)
  np.testing.assert_allclose(running["mean"], reference.running_mean, rtol=1e-5)
  np.testing.assert_allclose(running["var"], reference.running_var, rtol=1e-5)
