import jax
import numpy as np
import pytest
import safetensors.numpy

from pnjax import models
from pnjax import pretrained
from pnjax.pretrained import _load
from pnjax.pretrained import _names
from tests.pretrained.weight_files import random_tensors

SMALL = models.ViT(patch_size=4, width=8, depth=1, num_heads=2, grid=3)
DINOV2 = SMALL.clone(layer_scale=1.0)
REGISTERS = DINOV2.clone(num_registers=2)

PARTS = {  # Of `blocks.0` in timm and DINOv2, and in files of Hugging Face.
  "attn.proj": ("attention.output.dense", "attention.output.dense"),
  "norm1": ("layernorm_before", "norm1"),
  "norm2": ("layernorm_after", "norm2"),
  "mlp.fc1": ("intermediate.dense", "mlp.fc1"),
  "mlp.fc2": ("output.dense", "mlp.fc2"),
}


def timm_tensors(model, num_classes=None, registers="register_tokens"):
  """Returns random tensors with the names of timm and DINOv2, written out."""
  rng = np.random.default_rng(0)

  def normal(*shape):
    return rng.standard_normal(shape, np.float32)

  tensors = {
    "cls_token": normal(1, 1, 8),
    "pos_embed": normal(1, 10, 8),
    "patch_embed.proj.weight": normal(8, 3, 4, 4),
    "patch_embed.proj.bias": normal(8),
    "norm.weight": normal(8),
    "norm.bias": normal(8),
  }
  for name, shape in [
    ("norm1", (8,)),
    ("attn.qkv", (24, 8)),
    ("attn.proj", (8, 8)),
    ("norm2", (8,)),
    ("mlp.fc1", (32, 8)),
    ("mlp.fc2", (8, 32)),
  ]:
    tensors[f"blocks.0.{name}.weight"] = normal(*shape)
    tensors[f"blocks.0.{name}.bias"] = normal(shape[0])
  if model.layer_scale is not None:
    tensors |= {f"blocks.0.ls{i}.gamma": normal(8) for i in (1, 2)}
  if model.num_registers:
    tensors[registers] = normal(1, 2, 8)
  if num_classes is not None:
    tensors |= {"head.weight": normal(5, 8), "head.bias": normal(5)}
  return tensors


def huggingface(tensors, prefix, dinov2):
  """Returns the same tensors with the names of Hugging Face's files."""
  renamed = {}
  for name, x in tensors.items():
    name = name.replace("blocks.", f"{prefix}encoder.layer.")
    for part, names in PARTS.items():
      name = name.replace(f".{part}.", f".{names[dinov2]}.")
    if name.startswith("norm."):
      name = f"{prefix}layer{name}"
    for i in (1, 2):
      name = name.replace(f"ls{i}.gamma", f"layer_scale{i}.lambda1")
    for old, new in [
      ("cls_token", "cls_token"),
      ("pos_embed", "position_embeddings"),
      ("register_tokens", "register_tokens"),
      ("patch_embed.proj", "patch_embeddings.projection"),
    ]:
      if name.startswith(old):
        name = name.replace(old, f"{prefix}embeddings.{new}")
    name = name.replace("head.", "classifier.")
    if "attn.qkv" in name:
      for part, y in zip(("query", "key", "value"), np.split(x, 3), strict=True):
        renamed[name.replace("attn.qkv", f"attention.attention.{part}")] = y
    else:
      renamed[name] = x
  return renamed


def assert_same(actual, expected):
  jax.tree.map(np.testing.assert_array_equal, actual, expected)


def test_timm():
  tensors = timm_tensors(SMALL, num_classes=5)
  model = SMALL.clone(num_classes=5)
  params = _load.assemble(model, "vit_s16", tensors)["params"]
  block = params["block0"]
  for actual, expected in [
    (params["embed"]["class_token"], tensors["cls_token"]),
    (params["embed"]["positions"], tensors["pos_embed"]),
    (params["embed"]["patches"]["bias"], tensors["patch_embed.proj.bias"]),
    (block["qkv"]["kernel"], tensors["blocks.0.attn.qkv.weight"].T),
    (block["norm2"]["scale"], tensors["blocks.0.norm2.weight"]),
    (block["fc2"]["bias"], tensors["blocks.0.mlp.fc2.bias"]),
    (params["norm"]["bias"], tensors["norm.bias"]),
    (params["head"]["kernel"], tensors["head.weight"].T),
  ]:
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("prefix", ["", "vit."])
def test_huggingface_vit(prefix):
  tensors = timm_tensors(SMALL, num_classes=5)
  model = SMALL.clone(num_classes=5)
  renamed = huggingface(tensors, prefix, dinov2=False)
  assert f"{prefix}encoder.layer.0.attention.attention.query.weight" in renamed
  renamed[f"{prefix}pooler.dense.weight"] = np.zeros((8, 8), np.float32)
  actual = _load.assemble(model, "vit_s16", renamed)
  assert_same(actual, _load.assemble(model, "vit_s16", tensors))


@pytest.mark.parametrize("prefix", ["", "dinov2."])
@pytest.mark.parametrize("model", [DINOV2, REGISTERS])
def test_huggingface_dinov2(model, prefix):
  tensors = timm_tensors(model)
  renamed = huggingface(tensors, prefix, dinov2=True)
  assert f"{prefix}encoder.layer.0.layer_scale1.lambda1" in renamed
  renamed[f"{prefix}embeddings.mask_token"] = np.zeros((1, 8), np.float32)
  actual = _load.assemble(model, "vit_s14", renamed)
  tensors["mask_token"] = np.zeros((1, 8), np.float32)
  assert_same(actual, _load.assemble(model, "vit_s14", tensors))


def test_timm_with_registers_has_no_position_of_the_class_token():
  tensors = timm_tensors(REGISTERS)
  expected = _load.assemble(REGISTERS, "vit_s14", tensors)
  positions = expected["params"]["embed"]["positions"]
  renamed = timm_tensors(REGISTERS, registers="reg_token")
  renamed["pos_embed"] = renamed["pos_embed"][:, 1:]
  expected["params"]["embed"]["positions"] = positions.at[:, 0].set(0)
  assert_same(_load.assemble(REGISTERS, "vit_s14", renamed), expected)
  with pytest.raises(ValueError, match=r"pos_embed: .*\[1, 10, 8\], expected .*9, 8\]"):
    _load.assemble(REGISTERS, "vit_s14", renamed | {"pos_embed": tensors["pos_embed"]})


def test_every_mismatch_is_listed_under_the_names_of_the_file():
  renamed = huggingface(timm_tensors(SMALL), "vit.", dinov2=False)
  with pytest.raises(ValueError) as error:
    _load.assemble(REGISTERS, "vit_s14", renamed)
  assert str(error.value) == (
    "Tensors: 3 missing (vit.embeddings.register_tokens, vit.encoder.layer.0.scale1, "
    "vit.encoder.layer.0.scale2). Check the recipe and the number of classes."
  )
  with pytest.raises(ValueError, match=r"21 missing \(blocks.0.attn.proj.bias, "):
    conv = {"conv1.weight": np.zeros((64, 3, 7, 7), np.float32)}
    _load.assemble(REGISTERS, "vit_s14", conv)


def test_weights_with_registers_are_saved_and_load_again(tmp_path):
  name = "vit_s14_dinov2_registers"
  recipe = pretrained.RECIPES[name]
  tensors = random_tensors(recipe, with_classifier=False, example="reg_token")
  assert tensors["pos_embed"].shape == (1, 37**2, 384)
  classifier = {"head.weight": np.zeros((1000, 768), np.float32)}  # It is left out.
  safetensors.numpy.save_file(tensors | classifier, tmp_path / "a.safetensors")
  weights = pretrained.load(tmp_path / "a.safetensors", name)
  assert weights.model.num_registers == 4
  assert weights.variables["params"]["embed"]["positions"].shape == (1, 1370, 384)
  pretrained.save(tmp_path / "b.safetensors", weights)
  again = pretrained.load(tmp_path / "b.safetensors")
  assert again.name == name
  assert_same(again.variables, weights.variables)


def test_layouts_of_tokens_are_those_of_torch(rng):
  x = rng.standard_normal((1, 3, 8))
  layout = _names.torch_layout(("params", "embed", "positions"), x.shape)
  np.testing.assert_array_equal(layout.to_torch(x), x)
