"""Strict loading of weights."""

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import functools
import os

from flax import traverse_util
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
import numpy as np

from pnjax import models
from pnjax.pretrained import _damage
from pnjax.pretrained import _files
from pnjax.pretrained import _layouts
from pnjax.pretrained import _names
from pnjax.pretrained import _networks
from pnjax.pretrained import _recipes

# Number of names that an error lists of each kind.
_MAX_LISTED = 5


@dataclasses.dataclass(frozen=True, eq=False)
class Pretrained:
  """A network with its weights and its preprocessing.

  Attributes:
    name: Name of the recipe, or `"custom"`.
    recipe: Architecture and preprocessing of the network.
    model: Flax module; `model.clone(dtype=jnp.bfloat16)` returns a variation.
    variables: `{"params": ...}`, and `"batch_stats"` if it has batch norm.
  """

  name: str
  recipe: _recipes.Recipe
  model: models.Backbone
  variables: dict[str, dict]

  def preprocess(self, images: ArrayLike) -> jax.Array:
    """Return uint8 RGB images `[B, H, W, 3]` as the input of the network."""
    return self.recipe.preprocessing(images)

  def features(self, x: ArrayLike) -> jax.Array:
    """Return the last feature map, given the output of `preprocess`."""
    _check_preprocessed(x)
    return _apply(self.model, self.variables, x, "__call__")

  def logits(self, x: ArrayLike) -> jax.Array:
    """Return the logits, given the output of `preprocess`."""
    if not self.model.has_classifier:
      raise ValueError(
        f"These weights of {self.recipe.architecture} have no classifier; use "
        "`features`."
      )
    _check_preprocessed(x)
    return _apply(self.model, self.variables, x, "logits")


def _check_preprocessed(x: ArrayLike) -> None:
  if jnp.issubdtype(jnp.result_type(x), jnp.integer):
    raise ValueError(
      f"`x` is {jnp.result_type(x)}, expected the output of `preprocess`; call "
      "`features(preprocess(images))`."
    )


@functools.partial(jax.jit, static_argnames=("model", "method"))
def _apply(model, variables, x, method):
  return model.apply(variables, x, method=method)


def load(
  path: str | os.PathLike,
  recipe: str | _recipes.Recipe | None = None,
  *,
  override_recipe: bool = False,
) -> Pretrained:
  """Load weights of another framework, or those of a trained network.

  Tensors may have the names of torchvision, Keras, timm, DINOv2 or Hugging Face.

  The file must have every tensor of the network, in its shape, and no others. A file
  without a classifier gives a network without one; that of a file is left out if the
  network of the recipe has none. Half precision becomes float32.

  Args:
    path: File to read: `.safetensors`, `.npz`, `.tgz` (an npm package with a network of
      TensorFlow.js), `.ckpt` (a pickle of NumPy arrays, of which nothing is run), or
      with PyTorch installed `.pth`, `.pt` or `.pth.tar`. Or the folder of a finished
      run or of an exported model, whose backbone is loaded.
    recipe: Name of one of `RECIPES`, or a recipe of your own. If None, it is taken from
      the metadata of the file.
    override_recipe: Whether `recipe` may contradict the metadata.

  Returns:
    The network with its weights and its preprocessing.

  Raises:
    ValueError: If the file is damaged, does not fit the network, or has no recipe.
  """
  tensors, metadata = _files.read(path)
  trained, stated = _networks.read_description(os.fspath(path), metadata), None
  if trained is None:
    stated = _recipes.stated_recipe(metadata)
  else:
    tensors = _networks.backbone_tensors(os.fspath(path), tensors, trained)
    stated = trained.recipe or _recipes.CUSTOM
    recipe = (
      recipe or trained.recipe or _recipes.recipe_without_weights(trained.architecture)
    )
  name, recipe = _recipes.choose_recipe(
    os.fspath(path), recipe, stated, override_recipe
  )
  broken = [key for key, tensor in tensors.items() if not _is_finite(tensor)]
  if broken:
    raise ValueError(
      f"{os.fspath(path)} is damaged: not all values are finite in "
      f"{', '.join(map(_damage.printable, broken[:_MAX_LISTED]))}."
    )
  if recipe.num_classes is None:
    tensors = {k: x for k, x in tensors.items() if not _names.is_classifier(k)}
  model = recipe.model(with_classifier=any(map(_names.is_classifier, tensors)))
  try:
    variables = (
      assemble(model, recipe.architecture, tensors)
      if trained is None
      else _assemble_as_they_are(model, tensors)
    )
  except ValueError as error:
    raise ValueError(f"{os.fspath(path)} does not fit {name!r}. {error}") from error
  return Pretrained(name, recipe, model, variables)


def _is_finite(tensor: np.ndarray) -> bool:
  """Whether all values are finite in float32, if they are real numbers at all."""
  if not jnp.issubdtype(tensor.dtype, jnp.floating):
    return True  # Refused as none that a network has.
  with np.errstate(over="ignore"):
    return bool(np.isfinite(tensor.astype(np.float32, copy=False)).all())


def save(path: str | os.PathLike, weights: Pretrained) -> None:
  """Write safetensors with names of torchvision or DINOv2, completely or not at all.

  Args:
    path: File to write, in an existing folder. It states its recipe.
    weights: Weights to write.
  """
  if weights.name not in _recipes.RECIPES:
    raise ValueError(
      f"The recipe is {weights.name!r}, expected one of "
      f"{', '.join(_recipes.RECIPES)}; a file states its recipe by name."
    )
  tensors = {}
  for key, x in traverse_util.flatten_dict(weights.variables).items():
    name = _names.saved_name(weights.recipe.architecture, key)
    layout = _names.torch_layout(key, x.shape)
    tensors[name] = layout.to_torch(np.asarray(x))
  _files.write_safetensors(path, tensors, {"recipe": weights.name})


def assemble(
  model: models.Backbone, architecture: str, tensors: Mapping[str, np.ndarray]
) -> dict[str, dict]:
  """Return the variables of a network, given tensors with names that are known."""
  conversions = _conversions(model, _names.conversion_from(architecture, tensors))
  expected = {
    name: shape for c in conversions.values() for name, shape in c.tensors.items()
  }
  _check(expected, {k: v for k, v in tensors.items() if not _names.is_unused(k)})
  variables = {
    path: jnp.asarray(
      c.convert(*(tensors[name].astype(np.float32) for name in c.tensors))
    )
    for path, c in conversions.items()
  }
  return traverse_util.unflatten_dict(variables)


def _assemble_as_they_are(
  model: models.Backbone, tensors: Mapping[str, np.ndarray]
) -> dict[str, dict]:
  """Return the variables of a network, given tensors with its own names."""
  expected = {"/".join(path): shape for path, shape in _shapes(model).items()}
  _check(expected, tensors)
  variables = {name: jnp.asarray(tensors[name]) for name in expected}
  return _networks.nested_variables(variables)


def _shapes(model: models.Backbone) -> dict[_layouts.Path, _layouts.Shape]:
  """Return the shape of each array of a network."""
  tree = jax.eval_shape(
    lambda: model.init(jax.random.key(0), jnp.zeros((1, 224, 224, 3)))
  )
  return {p: leaf.shape for p, leaf in traverse_util.flatten_dict(tree).items()}


def _conversions(
  model: models.Backbone,
  conversion: Callable[[_layouts.Path, _layouts.Shape], _layouts.Conversion],
) -> dict[_layouts.Path, _layouts.Conversion]:
  """Return how each array of a network is made from the tensors of a file."""
  return {path: conversion(path, shape) for path, shape in _shapes(model).items()}


def _check(
  expected: Mapping[str, _layouts.Shape], tensors: Mapping[str, np.ndarray]
) -> None:
  """Raise a ValueError that names missing, extra and misshapen tensors, in one line."""
  wrong = [
    f"{name}: {tensors[name].dtype}{list(tensors[name].shape)}, "
    f"expected floating {list(shape)}"
    for name, shape in expected.items()
    if name in tensors
    and not (
      tensors[name].shape == shape and jnp.issubdtype(tensors[name].dtype, jnp.floating)
    )
  ]
  mismatches = [
    _count("missing", expected.keys() - tensors.keys()),
    _count("not in this network", tensors.keys() - expected.keys()),
    _count("with another shape or dtype", wrong),
  ]
  if any(mismatches):
    raise ValueError(
      f"Tensors: {'; '.join(filter(None, mismatches))}. Check the recipe and the "
      "number of classes."
    )


def _count(title: str, names: Iterable[str]) -> str:
  """Return `2 missing (a, b)`, or nothing."""
  names = sorted(names)
  shown = ", ".join(map(_damage.printable, names[:_MAX_LISTED]))
  more = len(names) - _MAX_LISTED
  rest = f" and {more} more" if more > 0 else ""
  return f"{len(names)} {title} ({shown}{rest})" if names else ""
