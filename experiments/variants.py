"""Configs of other methods than the one that the command line names."""

from collections.abc import Callable
import importlib.util

from absl import flags
import ml_collections
from ml_collections import config_flags

from experiments import weights

ConfigOf = Callable[[str], ml_collections.ConfigDict]


def of(flag: flags.Flag) -> ConfigOf:
  """Returns a function from a method to its config.

  It keeps the file, the backbone and the fields that the command line set.

  Args:
    flag: of `config_flags.DEFINE_config_file`, after parsing.
  """
  path, _, behind = config_flags.get_config_filename(flag).partition(":")
  _, *backbone = behind.split(",")
  spec = importlib.util.spec_from_file_location("config_of_a_method", path)
  module = importlib.util.module_from_spec(spec)
  spec.loader.exec_module(module)

  def config_of(method: str) -> ml_collections.ConfigDict:
    config = module.get_config(",".join([method, *backbone]))
    config.update_from_flattened_dict(config_flags.get_override_values(flag))
    fetch_weights(config)
    return config

  return config_of


def fetch_weights(config: ml_collections.ConfigDict) -> None:
  """Replaces the name of known weights by the path of the file."""
  if config.backbone.weights in weights.SOURCES:
    config.backbone.weights = str(weights.fetch(config.backbone.weights))
