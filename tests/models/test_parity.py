"""Backbones against PyTorch, with the same random weights."""

from flax import traverse_util
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import models
from pnjax.pretrained import _load

torch = pytest.importorskip("torch")

from benchmarks import torch_networks  # noqa: E402

# Not the default, and far enough from it to matter with the variances below.
EPSILON = 1e-3
NETWORKS = ("resnet50_v1", "resnet50_v1.5", "alexnet", "vgg16")
RESNET_SIZE = 43  # The sides of the feature maps: 22, 11, 6, 3, 2.
SLOW_SIZES = (224, 336, 448)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
  """Run PyTorch on one thread: more would spin while XLA uses the cores."""
  num_threads = torch.get_num_threads()
  torch.set_num_threads(1)
  yield
  torch.set_num_threads(num_threads)


def make_networks(name, stage_sizes=None):
  """Returns the same network in Flax and in PyTorch, the latter with random weights.

  Args:
    name: Name of a backbone, and the variant of a ResNet after `_`.
    stage_sizes: Numbers of blocks of a ResNet, if they should be others.
  """
  torch.manual_seed(0)
  architecture, _, variant = name.partition("_")
  if architecture == "alexnet":
    model, network = models.AlexNet(num_classes=1000), torch_networks.AlexNet()
  elif architecture == "vgg16":
    model, network = models.VGG16(), torch_networks.VGG16()
    # PyTorch's own initialization loses half of the signal in each layer.
    for parameter in network.parameters():
      if parameter.ndim == 4:
        torch.nn.init.kaiming_normal_(parameter)
  else:
    model = models.BACKBONES[architecture](
      variant=variant, epsilon=EPSILON, num_classes=1000
    )
    if stage_sizes is not None:
      model = model.clone(stage_sizes=stage_sizes)
    network = torch_networks.ResNet(
      variant, EPSILON, model.stage_sizes, model.bottleneck
    )
  randomize_batch_norm(network)
  return model, network.eval()


def randomize_batch_norm(network):
  for module in network.modules():
    if isinstance(module, torch.nn.BatchNorm2d):
      torch.nn.init.uniform_(module.weight, 0.2, 0.8)
      torch.nn.init.normal_(module.bias, std=0.2)
      torch.nn.init.normal_(module.running_mean, std=0.2)
      torch.nn.init.uniform_(module.running_var, 0.02, 0.5)


def convert(model, tensors):
  architecture = type(model).__name__.lower()
  return _load.assemble(model, architecture, {k: v.numpy() for k, v in tensors.items()})


def images(rng, size):
  return rng.standard_normal((1, size, size, 3), dtype=np.float32)


def to_torch(x):
  return torch.from_numpy(x).permute(0, 3, 1, 2)


def relative_difference(actual, expected):
  actual, expected = np.asarray(actual), np.asarray(expected)
  assert actual.shape == expected.shape
  return np.max(np.abs(actual - expected)) / np.max(np.abs(expected))


@pytest.mark.parametrize(
  ("name", "size"),
  [
    ("resnet18_v1.5", RESNET_SIZE),
    ("resnet34_v1.5", RESNET_SIZE),
    ("resnet50_v1", RESNET_SIZE),
    pytest.param("resnet101_v1.5", RESNET_SIZE, marks=pytest.mark.slow),
    pytest.param("resnet152_v1.5", RESNET_SIZE, marks=pytest.mark.slow),
    ("alexnet", 224),
    ("vgg16", 43),
    *(
      pytest.param(name, size, marks=pytest.mark.slow)
      for name in NETWORKS
      for size in SLOW_SIZES
      if (name, size) != ("alexnet", 224)
    ),
  ],
)
def test_stages_and_logits_equal_pytorch(rng, name, size):
  model, network = make_networks(name)
  # The fully connected layers of AlexNet need images of 224 × 224.
  has_logits = model.has_classifier and (name != "alexnet" or size == 224)
  x = images(rng, size)
  with torch.inference_mode():
    feature_maps = network.stages(to_torch(x))
    expected = {stage: y.permute(0, 2, 3, 1) for stage, y in feature_maps.items()}
    if has_logits:
      expected["logits"] = network(to_torch(x))

  def outputs(model, x):
    feature_maps = model.stages(x)
    *_, last = feature_maps.values()
    return feature_maps | ({"logits": model.classify(last)} if has_logits else {})

  apply = jax.jit(lambda variables, x: model.apply(variables, x, method=outputs))
  actual = apply(convert(model, network.state_dict()), x)
  assert actual.keys() == expected.keys()
  for output, y in expected.items():
    assert relative_difference(actual[output], y) <= 1e-4, output


@pytest.mark.parametrize(
  ("name", "size"),
  [
    ("resnet18_v1.5", RESNET_SIZE),
    ("resnet50_v1.5", RESNET_SIZE),
    ("alexnet", 75),
    ("vgg16", 27),
  ],
)
def test_gradients_equal_pytorch(rng, x64, name, size):
  # Fewer blocks, but one of each kind. Version 1.5 has all convolutions of version 1.
  check_gradients(rng, *make_networks(name, stage_sizes=(2, 1, 1, 1)), size)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("size", [96, *SLOW_SIZES])
def test_gradients_of_whole_networks_equal_pytorch(rng, x64, name, size):
  check_gradients(rng, *make_networks(name), size)


def check_gradients(rng, model, network, size):
  """Compares the output and all gradients, in float64.

  In float32, an activation may round to the other side of a kink. Out of ten million,
  one or two are within rounding error of zero, or of their neighbor in max-pooling.
  ReLU or the pooling may then choose differently in the two frameworks, and gradients
  differ by whatever passes there: images without such a choice agreed to 1e-4, and a
  single choice made a difference of 1e-2.
  """
  # The last feature map does not depend on the classifier.
  model = model.clone(dtype=jnp.float64)
  if model.has_classifier:
    model = model.clone(num_classes=None)
    delattr(network, "fc" if hasattr(network, "fc") else "classifier")
  x = images(rng, size).astype(np.float64)
  x_torch = to_torch(x).requires_grad_()
  *_, y = network.double().stages(x_torch).values()
  g = rng.standard_normal(y.permute(0, 2, 3, 1).shape)
  y.backward(to_torch(g))
  tensors = network.state_dict()
  variables = jax.tree.map(np.float64, convert(model, tensors))
  tensors |= {name: p.grad for name, p in network.named_parameters()}
  expected = convert(model, tensors)["params"]

  @jax.jit
  def output_and_gradients(params, x):
    def apply(params, x):
      return model.apply(variables | {"params": params}, x, train=True)

    y, vjp = jax.vjp(apply, params, x)
    return y, *vjp(g)

  output, actual, x_bar = output_and_gradients(variables["params"], x)
  actual, expected = map(traverse_util.flatten_dict, (actual, expected))
  assert actual.keys() == expected.keys()
  differences = {
    "output": relative_difference(output, y.detach().permute(0, 2, 3, 1)),
    "x": relative_difference(x_bar, x_torch.grad.permute(0, 2, 3, 1)),
  }
  for path, leaf in actual.items():
    differences["/".join(path)] = relative_difference(leaf, expected[path])
  # `convert` rounds to float32, which is all that remains.
  assert {k: d for k, d in differences.items() if not d <= 1e-6} == {}
