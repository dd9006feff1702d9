"""Files of networks that were trained here, with the names of their Flax variables.

`params/backbone/conv1/kernel` is a tensor of the backbone. A file may have the other
layers of the network as well. It states its recipe, and the digest of its tensors,
which is verified.
"""

from collections.abc import Mapping
import json
import os
from typing import Any
from typing import NamedTuple

from flax import traverse_util
import numpy as np

from pnjax.pretrained import _damage
from pnjax.pretrained import _files

# One entry, since the order of several would differ from file to file.
_KEY = "pnjax"


class Description(NamedTuple):
  """What a file says about its network.

  Attributes:
    architecture: Name of the backbone in `pnjax.models.BACKBONES`.
    recipe: Name of the recipe of its backbone; None if it started at random.
    sha256: Digest of all tensors.
  """

  architecture: str
  recipe: str | None
  sha256: str


def save_network(
  path: str | os.PathLike,
  variables: Mapping[str, Any],
  architecture: str,
  recipe: str | None,
) -> None:
  """Write the variables of a trained network, completely or not at all.

  `load` and `backbone.weights` read the backbone from its folder, if the name of the
  file is `NETWORK_FILE`.

  Args:
    path: File to write, in an existing folder.
    variables: Variables of the network, of which the backbone is required.
    architecture: Name of the backbone in `pnjax.models.BACKBONES`.
    recipe: Name of the recipe of its backbone, if any.
  """
  tensors = flat_variables(variables)
  description = Description(architecture, recipe, _files.digest(tensors))
  metadata = {_KEY: json.dumps(description._asdict())}
  _files.write_safetensors(path, tensors, metadata)


def flat_variables(variables: Mapping[str, Any]) -> dict[str, np.ndarray]:
  """Return the variables of a network by their names in a file."""
  flat = traverse_util.flatten_dict(dict(variables), sep="/")
  return {name: np.asarray(x) for name, x in flat.items()}


def nested_variables(tensors: Mapping[str, Any]) -> dict[str, Any]:
  """Return the variables of a network from the tensors of a file."""
  return traverse_util.unflatten_dict(dict(tensors), sep="/")


def read_description(path: str, metadata: Mapping[str, str]) -> Description | None:
  """Return what the metadata of a file say; None if it has another format."""
  if _KEY not in metadata:
    return None
  try:
    description = Description(**json.loads(metadata[_KEY]))
    if not all(isinstance(x, str) for x in description if x is not None):
      raise TypeError(description)
    return description
  except (TypeError, ValueError, RecursionError) as error:
    raise ValueError(
      f"{path} is damaged, or of a later version of pnjax: its metadata are "
      f"{_damage.printable(repr(metadata[_KEY]))}."
    ) from error


def backbone_tensors(
  path: str, tensors: Mapping[str, np.ndarray], description: Description
) -> dict[str, np.ndarray]:
  """Return the tensors of the backbone in a file, after verifying all of them.

  Args:
    path: File of the tensors, for error messages.
    tensors: All tensors of the file.
    description: What the file says about them.
  """
  if _files.digest(dict(tensors)) != description.sha256:
    raise ValueError(
      f"{path} is damaged: its numbers have changed since it was written; train or "
      "export the network again."
    )
  own = {}
  for name, x in tensors.items():
    collection, _, rest = name.partition("/backbone/")
    if rest:
      own[f"{collection}/{rest}"] = x
  return own
