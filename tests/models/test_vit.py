"""Vision transformers, alone and against Hugging Face's `transformers`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import models
from pnjax.models import ViT
from pnjax.pretrained import _load

SMALL = ViT(patch_size=8, width=32, depth=3, num_heads=2, grid=4)
DINOV2 = SMALL.clone(layer_scale=1e-5)
VARIANTS = {
  "vit": SMALL.clone(epsilon=1e-12),
  "dinov2": DINOV2,
  "dinov2_with_registers": DINOV2.clone(num_registers=5),
}


def images(*size):
  rng = np.random.default_rng(0)
  return rng.standard_normal((2, *size, 3), dtype=np.float32)


@functools.cache
def make_network(name):
  """Returns a network of `transformers` with random weights."""
  transformers = pytest.importorskip("transformers")
  import torch

  model = VARIANTS[name]
  fields = {
    "hidden_size": model.width,
    "num_hidden_layers": model.depth,
    "num_attention_heads": model.num_heads,
    "patch_size": model.patch_size,
    "image_size": model.patch_size * model.grid,
  }
  if name == "vit":
    config = transformers.ViTConfig(**fields, intermediate_size=4 * model.width)
    network = transformers.ViTForImageClassification(config)
  elif name == "dinov2":
    network = transformers.Dinov2Model(transformers.Dinov2Config(**fields))
  else:
    config = transformers.Dinov2WithRegistersConfig(
      **fields, num_register_tokens=model.num_registers
    )
    network = transformers.Dinov2WithRegistersModel(config)
  torch.manual_seed(0)
  for parameter in network.parameters():
    torch.nn.init.normal_(parameter, std=0.3)
  return network.eval()


def convert(name, tensors):
  model = VARIANTS[name]
  if name == "vit":
    model = model.clone(num_classes=2)
  return model, _load.assemble(model, "vit_s16", tensors)


def state_dict(network):
  return {name: x.numpy() for name, x in network.state_dict().items()}


def assert_close(actual, expected):
  actual, expected = np.asarray(actual), np.asarray(expected)
  assert actual.shape == expected.shape
  difference = np.max(np.abs(actual - expected)) / np.max(np.abs(expected))
  assert difference <= 1e-4


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("size", [(32, 32), (60, 60), (24, 47), (16, 8)])
def test_all_stages_equal_transformers(name, size):
  network = make_network(name)
  import torch

  model, variables = convert(name, state_dict(network))
  x = images(*size)
  # DINOv2 interpolates its position embeddings without being asked.
  options = {"interpolate_pos_encoding": True} if name == "vit" else {}
  with torch.inference_mode():
    outputs = network(
      torch.from_numpy(x).permute(0, 3, 1, 2), output_hidden_states=True, **options
    )
    last = getattr(network, "vit", network).layernorm(outputs.hidden_states[-1])

  def tokens(model, x):
    *stages, (_, grid) = model.stages(x).items()
    split = [model._split(y) for _, y in stages]
    return [jnp.concatenate([a, b.reshape(2, -1, 32)], axis=1) for a, b in split], grid

  actual, grid = jax.jit(functools.partial(model.apply, method=tokens))(variables, x)
  assert len(actual) == len(outputs.hidden_states) == model.depth + 1
  for a, e in zip(actual, outputs.hidden_states, strict=True):
    assert_close(a, e)
  rows, columns = (side // 8 for side in size)
  patches = last[:, 1 + model.num_registers :]
  assert_close(grid, patches.reshape(2, rows, columns, 32))
  if name == "vit":
    logits = jax.jit(functools.partial(model.apply, method="logits"))(variables, x)
    assert_close(logits, outputs.logits)


def test_gradients_equal_transformers(x64):
  network = make_network("dinov2_with_registers")
  import copy

  import torch

  network = copy.deepcopy(network).double()
  model, variables = convert("dinov2_with_registers", state_dict(network))
  # `assemble` rounds to float32.
  variables = jax.tree.map(lambda v: v.astype(np.float64), variables)
  with torch.no_grad():
    for parameter in network.parameters():
      parameter.copy_(parameter.float())
  model = model.clone(dtype=jnp.float64)
  x = images(32, 32).astype(np.float64)
  x_torch = torch.from_numpy(x).requires_grad_()
  last = network(x_torch.permute(0, 3, 1, 2)).last_hidden_state[:, 6:]
  g = np.random.default_rng(1).standard_normal((2, 4, 4, 32))
  last.backward(torch.from_numpy(g).reshape(2, 16, 32))
  gradients = {n: p.grad for n, p in network.named_parameters() if p.grad is not None}
  tensors = network.state_dict() | gradients
  _, expected = convert(
    "dinov2_with_registers", {name: x.numpy() for name, x in tensors.items()}
  )

  @jax.jit
  def backward(params, x):
    y, vjp = jax.vjp(lambda p, x: model.apply({"params": p}, x), params, x)
    return y, *vjp(g)

  y, actual, x_bar = backward(variables["params"], x)
  assert_close(y, last.detach().reshape(2, 4, 4, 32))
  assert_close(x_bar, x_torch.grad)
  jax.tree.map(assert_close, actual, expected["params"])


@pytest.mark.parametrize("name", VARIANTS)
def test_files_and_state_dicts_give_the_same_variables(name, tmp_path):
  network = make_network(name)
  import safetensors.numpy

  network.save_pretrained(tmp_path)
  tensors = safetensors.numpy.load_file(tmp_path / "model.safetensors")
  assert tensors.keys() != network.state_dict().keys()
  _, expected = convert(name, state_dict(network))
  _, actual = convert(name, tensors)
  jax.tree.map(np.testing.assert_array_equal, actual, expected)


@pytest.mark.parametrize(
  "name, parameters",
  [
    # As published: with 1000 classes, and with a token for masked patches.
    ("vit_s16", 22_050_664),
    ("vit_b16", 86_567_656),
    ("vit_s14", 22_056_576 - 384),
    ("vit_b14", 86_580_480 - 768),
  ],
)
def test_number_of_parameters(name, parameters):
  backbone = models.BACKBONES[name]
  model = backbone(num_classes=1000) if name.endswith("16") else backbone()
  x = jax.ShapeDtypeStruct((1, 56, 70, 3), jnp.float32)
  out, variables = jax.eval_shape(model.init_with_output, jax.random.key(0), x)
  size = model.patch_size
  assert out.shape == (1, 56 // size, 70 // size, model.width)
  assert sum(x.size for x in jax.tree.leaves(variables)) == parameters


@pytest.mark.parametrize("size", [(32, 32), (40, 8)])
def test_later_stages_continue_from_any_other(size):
  model = DINOV2.clone(num_registers=5)
  x = images(*size)
  variables = jax.jit(model.init)(jax.random.key(0), x)
  feature_maps = model.apply(variables, x, method="stages")
  names = list(feature_maps)
  assert names == ["embed", "block0", "block1", "block2", "norm"]
  for i, name in enumerate(names):
    later = model.apply(variables, feature_maps[name], after=name, method="stages")
    assert list(later) == names[i + 1 :]
    jax.tree.map(
      np.testing.assert_array_equal, later, {n: feature_maps[n] for n in later}
    )


def test_bfloat16_computes_in_half_precision_with_float32_parameters():
  model = DINOV2.clone(num_registers=5, dtype=jnp.bfloat16, num_classes=3)
  x = images(48, 48)
  variables = jax.jit(model.init)(jax.random.key(0), x)
  assert {leaf.dtype for leaf in jax.tree.leaves(variables)} == {jnp.dtype("float32")}
  half = model.apply(variables, x)
  assert half.dtype == jnp.bfloat16
  assert model.apply(variables, x, method="logits").dtype == jnp.float32
  full = model.clone(dtype=jnp.float32).apply(variables, x)
  np.testing.assert_allclose(half.astype(jnp.float32), full, atol=0.1)


def test_images_smaller_than_a_patch_are_refused():
  with pytest.raises(ValueError, match="images are 32 × 7, expected at least 8 × 8"):
    SMALL.init(jax.random.key(0), images(32, 7))


def test_logits_need_a_classifier():
  with pytest.raises(ValueError, match="no classifier"):
    SMALL.apply({"params": {}}, images(32, 32), method="logits")


@pytest.mark.parametrize(
  "depth, blocks, after", [(12, {9, 10, 11}, "block8"), (1, {0}, "embed")]
)
def test_last_stage(depth, blocks, after):
  choice = SMALL.clone(depth=depth).trainable_choices()["last_stage"]
  assert choice.layers == (*(f"block{i}" for i in sorted(blocks)), "norm")
  assert choice.after == after
