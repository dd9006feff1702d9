"""Configs of all methods, from the one that the command line names."""

from collections.abc import Callable

from absl import flags
import ml_collections
from ml_collections import config_flags

from experiments import config_files

ConfigOf = Callable[[str], ml_collections.ConfigDict]


def method_configs(flag: flags.Flag) -> ConfigOf:
  """Return a function from a method to its config.

  The config keeps the file, the backbone and the fields that the command line set.

  Args:
    flag: The flag of `config_flags.DEFINE_config_file`, after parsing.
  """
  file, _, text = config_flags.get_config_filename(flag).partition(":")
  _, *backbone = text.split(",")
  get_config = config_files.read(file)

  def config_of(method: str) -> ml_collections.ConfigDict:
    config = get_config(",".join([method, *backbone]))
    config.update_from_flattened_dict(config_flags.get_override_values(flag))
    return config

  return config_of
