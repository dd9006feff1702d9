"""Loading of weights, strictly."""

from collections.abc import Iterable
from collections.abc import Mapping
import dataclasses
import functools
import os

from flax import linen as nn
from flax import traverse_util
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
import numpy as np

from pnjax.pretrained import _files
from pnjax.pretrained import _names
from pnjax.pretrained import _recipes

# Names that an error lists of each kind.
_LISTED = 10


@dataclasses.dataclass(frozen=True, eq=False)
class Pretrained:
  """A network with its weights, and the way in which it wants its pictures.

  Attributes:
    name: name of the recipe, or `"custom"`.
    recipe: how the network is built and fed.
    model: Flax module; `model.clone(dtype=jnp.bfloat16)` makes variations.
    variables: `{"params": ...}`, and `"batch_stats"` where it has batch norm.
  """

  name: str
  recipe: _recipes.Recipe
  model: nn.Module
  variables: dict[str, dict]

  def preprocess(self, images: ArrayLike) -> jax.Array:
    """Returns uint8 RGB pictures `[B, H, W, 3]` as the network wants them."""
    images = jnp.asarray(images)
    if images.dtype != jnp.uint8 or images.ndim != 4 or images.shape[-1] != 3:
      raise ValueError(
        f"`images` is {images.dtype} of shape {images.shape}, expected uint8 RGB "
        "[B, H, W, 3]; a single picture is `image[None]`."
      )
    if self.recipe.channels == "BGR":
      images = images[..., ::-1]
    x = images.astype(jnp.float32) / self.recipe.divisor
    mean, std = (
      jnp.asarray(v, jnp.float32).reshape(1, 1, 1, 3)
      for v in (self.recipe.mean, self.recipe.std)
    )
    return (x - mean) / std

  def features(self, x: ArrayLike) -> jax.Array:
    """Returns the last convolutional map of what `preprocess` returned."""
    _check_preprocessed(x)
    return _apply(self.model, self.variables, x, "__call__")

  def logits(self, x: ArrayLike) -> jax.Array:
    """Returns the logits of what `preprocess` returned."""
    if self.model.num_classes is None:
      raise ValueError(
        f"These weights of {self.recipe.architecture} came without a classifier, so "
        "they have `features` but no `logits`."
      )
    _check_preprocessed(x)
    return _apply(self.model, self.variables, x, "logits")


def _check_preprocessed(x: ArrayLike) -> None:
  if jnp.issubdtype(jnp.result_type(x), jnp.integer):
    raise ValueError(
      f"`x` has dtype {jnp.result_type(x)}, expected what `preprocess` returned: call "
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
  """Loads weights with torchvision's or Keras's names.

  Every tensor of the network has to be there, in its shape, and none besides. A
  file without any tensor of the classifier is one without classifier. Half
  precision becomes float32.

  Args:
    path: `.safetensors`, `.npz`, or with PyTorch installed `.pth`, `.pt` and
      `.pth.tar`.
    recipe: one of `RECIPES` by name, or one of your own; from the metadata of the
      file where it is None.
    override_recipe: allows a `recipe` that contradicts the metadata.

  Returns:
    The network, its variables, and its preprocessing.

  Raises:
    ValueError: the file is damaged, does not fit the network, or nobody says
      what it is.
  """
  tensors, metadata = _files.read(path)
  name, recipe = _recipes.choose_recipe(
    os.fspath(path), recipe, _recipes.stated_recipe(metadata), override_recipe
  )
  broken = [key for key, tensor in tensors.items() if not np.isfinite(tensor).all()]
  if broken:
    raise ValueError(
      f"{os.fspath(path)} is damaged: {', '.join(broken[:10])} has values that are not "
      "finite."
    )
  model = recipe.model(with_classifier=any(map(_names.is_classifier, tensors)))
  try:
    variables = assemble(model, recipe.architecture, tensors)
  except ValueError as error:
    raise ValueError(f"{os.fspath(path)} does not fit {name!r}. {error}") from error
  return Pretrained(name, recipe, model, variables)


def save(path: str | os.PathLike, weights: Pretrained) -> None:
  """Writes safetensors with torchvision's names, whole or not at all.

  Args:
    path: the file, whose folder exists. `load` knows its recipe again.
    weights: what to write.
  """
  if weights.name not in _recipes.RECIPES:
    raise ValueError(
      f"The recipe is {weights.name!r}, expected one of "
      f"{', '.join(_recipes.RECIPES)}: a file states its recipe by name."
    )
  tensors = {}
  for key, x in traverse_util.flatten_dict(weights.variables).items():
    name = _names.torchvision_name(weights.recipe.architecture, key)
    layout = _names.torchvision_layout(key, x.shape)
    tensors[name] = layout.to_torch(np.asarray(x))
  _files.write_safetensors(path, tensors, {"recipe": weights.name})


def assemble(
  model: nn.Module, architecture: str, tensors: Mapping[str, np.ndarray]
) -> dict[str, dict]:
  """Returns variables of a network from tensors in torchvision's or Keras's names."""
  sources = _sources(model, architecture, _names.is_keras(tensors))
  expected = {
    name: shape for source in sources.values() for name, shape in source.tensors.items()
  }
  _check(expected, {k: v for k, v in tensors.items() if not _names.is_counter(k)})
  variables = {
    path: jnp.asarray(
      source.convert(*(tensors[name].astype(np.float32) for name in source.tensors))
    )
    for path, source in sources.items()
  }
  return traverse_util.unflatten_dict(variables)


def _sources(
  model: nn.Module, architecture: str, keras: bool
) -> dict[_names.Path, _names.Source]:
  tree = jax.eval_shape(
    lambda: model.init(jax.random.key(0), jnp.zeros((1, 224, 224, 3)))
  )
  source = _names.keras_source if keras else _names.torchvision_source
  return {
    path: source(architecture, path, leaf.shape)
    for path, leaf in traverse_util.flatten_dict(tree).items()
  }


def _check(
  expected: Mapping[str, _names.Shape], tensors: Mapping[str, np.ndarray]
) -> None:
  """Raises an error that lists all tensors which are missing, extra or misshapen."""
  wrong = [
    f"{name}: {tensors[name].dtype}{list(tensors[name].shape)}, "
    f"expected floating {list(shape)}"
    for name, shape in expected.items()
    if name in tensors
    and not (
      tensors[name].shape == shape and jnp.issubdtype(tensors[name].dtype, jnp.floating)
    )
  ]
  complaints = [
    *_listed("-", "missing", expected.keys() - tensors.keys()),
    *_listed("+", "not of this network", tensors.keys() - expected.keys()),
    *_listed("!", "of another shape or kind", wrong),
  ]
  if complaints:
    raise ValueError(
      "Is it the right recipe, and the right number of classes?\n"
      + "\n".join(complaints)
    )


def _listed(sign: str, what: str, names: Iterable[str]) -> list[str]:
  names = sorted(names)
  lines = [f"  {sign} {name}" for name in names[:_LISTED]]
  if len(names) > _LISTED:
    lines.append(f"  {sign} and {len(names) - _LISTED} more")
  return [f"{len(names)} {what}:", *lines] if names else []
