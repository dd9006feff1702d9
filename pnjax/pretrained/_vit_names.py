"""Names and layouts of the tensors of vision transformers.

Files of DINOv2, of `timm` and of Hugging Face's `transformers` have the same tensors
under different names, with two exceptions: `transformers` keeps query, key and value
apart, and in `timm` with registers the class token has no position embedding.
"""

from collections.abc import Callable
from collections.abc import Collection
import functools

import jax
import numpy as np

from pnjax.pretrained._layouts import Conversion
from pnjax.pretrained._layouts import Path
from pnjax.pretrained._layouts import Shape
from pnjax.pretrained._layouts import layout_of_rank

Names = dict[str, str]

_DINOV2: Names = {
  "class_token": "cls_token",
  "registers": "register_tokens",
  "positions": "pos_embed",
  "patches": "patch_embed.proj",
  "block": "blocks.",
  "norm1": "norm1",
  "qkv": "attn.qkv",
  "proj": "attn.proj",
  "scale1": "ls1.gamma",
  "norm2": "norm2",
  "fc1": "mlp.fc1",
  "fc2": "mlp.fc2",
  "scale2": "ls2.gamma",
  "norm": "norm",
  "head": "head",
}
_TIMM_WITH_REGISTERS = _DINOV2 | {"registers": "reg_token"}
_HUGGING_FACE_VIT: Names = {
  "class_token": "embeddings.cls_token",
  "registers": "embeddings.register_tokens",
  "positions": "embeddings.position_embeddings",
  "patches": "embeddings.patch_embeddings.projection",
  "block": "encoder.layer.",
  "norm1": "layernorm_before",
  "query": "attention.attention.query",
  "key": "attention.attention.key",
  "value": "attention.attention.value",
  "proj": "attention.output.dense",
  "norm2": "layernorm_after",
  "fc1": "intermediate.dense",
  "fc2": "output.dense",
  "norm": "layernorm",
}
_HUGGING_FACE_DINOV2 = _HUGGING_FACE_VIT | {
  "norm1": "norm1",
  "scale1": "layer_scale1.lambda1",
  "norm2": "norm2",
  "fc1": "mlp.fc1",
  "fc2": "mlp.fc2",
  "scale2": "layer_scale2.lambda1",
}
# `state_dict()` of version 5, which still writes files with the names above.
_TRANSFORMERS_5 = {
  "query": "attention.q_proj",
  "key": "attention.k_proj",
  "value": "attention.v_proj",
  "proj": "attention.o_proj",
}
_HUGGING_FACE = (
  _HUGGING_FACE_VIT,
  _HUGGING_FACE_DINOV2,
  _HUGGING_FACE_VIT
  | _TRANSFORMERS_5
  | {"block": "layers.", "fc1": "mlp.fc1", "fc2": "mlp.fc2"},
  _HUGGING_FACE_DINOV2 | _TRANSFORMERS_5,
)


def is_unused(name: str) -> bool:
  """Return whether a tensor has a use in pretraining only."""
  *_, module = name.removesuffix(".weight").removesuffix(".bias").split(".")
  return module == "mask_token" or name.removeprefix("vit.").startswith("pooler.")


def vit_conversion_from(
  tensors: Collection[str],
) -> Callable[[Path, Shape], Conversion]:
  """Return the function that converts each array.

  Args:
    tensors: Names of the tensors of a file, which tell where it comes from.
  """
  if "reg_token" in tensors:
    return functools.partial(_conversion, _TIMM_WITH_REGISTERS)
  for names in _HUGGING_FACE:
    end = f"{names['block']}0.{names['norm1']}.weight"
    other = f"{names['block']}0.{names['query']}.weight"
    for tensor in tensors:
      prefix = tensor.removesuffix(end)
      if tensor.endswith(end) and f"{prefix}{other}" in tensors:
        return functools.partial(_conversion, _with_prefix(names, prefix))
  return functools.partial(_conversion, _DINOV2)


def vit_name(path: Path) -> str:
  """Return the name of an array in files of DINOv2, such as `blocks.0.norm1.weight`."""
  return _name(_DINOV2, path)


def _with_prefix(names: Names, prefix: str) -> Names:
  """Return the names of a backbone inside a network that has a classifier, too."""
  outer = ("class_token", "registers", "positions", "patches", "block", "norm")
  return names | {key: prefix + names[key] for key in outer} | {"head": "classifier"}


def _conversion(names: Names, path: Path, shape: Shape) -> Conversion:
  layout = layout_of_rank(len(shape))
  if "qkv" in path and "qkv" not in names:
    return _from_parts(names, path, shape)
  if path[-1] == "positions" and names is _TIMM_WITH_REGISTERS:
    batch, length, width = shape
    return Conversion(
      {_name(names, path): (batch, length - 1, width)},
      lambda x: np.pad(x, [(0, 0), (1, 0), (0, 0)]),
    )
  stored = jax.eval_shape(layout.to_torch, jax.ShapeDtypeStruct(shape, np.float32))
  return Conversion({_name(names, path): stored.shape}, layout.from_torch)


def _from_parts(names: Names, path: Path, shape: Shape) -> Conversion:
  """Return the conversion of query, key and value, which are one array here."""
  params, block, _, leaf = path
  parts = [(params, block, part, leaf) for part in ("query", "key", "value")]
  one = (*shape[:-1], shape[-1] // 3)
  tensors = [_conversion(names, part, one) for part in parts]
  return Conversion(
    {name: stored for part in tensors for name, stored in part.tensors.items()},
    # PyTorch's first axis is the last one here.
    lambda *x: layout_of_rank(len(shape)).from_torch(np.concatenate(x)),
  )


def _name(names: Names, path: Path) -> str:
  """Return the name of an array; one that files do not have keeps ours."""
  _, *modules, leaf = path
  modules = [module for module in modules if module != "embed"]
  prefix = ""
  if modules and modules[0].startswith("block"):
    prefix = f"{names['block']}{modules.pop(0).removeprefix('block')}."
  if not modules:  # The array belongs to the block or to the embedding itself.
    return prefix + names.get(leaf, leaf)
  name = names.get(modules[0], modules[0])
  return f"{prefix}{name}.{'bias' if leaf == 'bias' else 'weight'}"
