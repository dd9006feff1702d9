"""Config files: Python files with a function `get_config`."""

from collections.abc import Callable
from collections.abc import Iterator
import contextlib
from importlib import machinery
from importlib import util
import inspect
import os
import re
import sys
import traceback

import ml_collections

GetConfig = Callable[..., ml_collections.ConfigDict]


def read(file: str) -> GetConfig:
  """Execute a config file and return its `get_config`, whose errors are explained.

  Args:
    file: Path of the file.

  Raises:
    ValueError: also by the function that is returned, with the line of the file that
      a mistake is in.
  """
  if not os.path.isfile(file):
    what = "it is a folder" if os.path.isdir(file) else "there is no such file"
    raise ValueError(f"the config file is {file!r}, but {what}.")
  loader = machinery.SourceFileLoader("config_file", file)
  spec = util.spec_from_loader(loader.name, loader)
  assert spec is not None
  module = sys.modules[loader.name] = util.module_from_spec(spec)
  with _explained_errors(file):
    loader.exec_module(module)
  function = getattr(module, "get_config", None)
  if not callable(function):
    raise ValueError(
      f"{file} has no function get_config, expected one that returns a config, as in "
      "experiments/configs."
    )

  def get_config(*method: str) -> ml_collections.ConfigDict:
    _check_arguments(file, function, *method)
    with _explained_errors(file):
      config = function(*method)
    if not isinstance(config, ml_collections.ConfigDict):
      raise ValueError(
        f"get_config of {file} returns {type(config).__name__}, expected a ConfigDict; "
        "start from `pnjax.config.get_config()`, and return it."
      )
    return config

  return get_config


def _check_arguments(file: str, function: Callable, *method: str) -> None:
  try:
    inspect.signature(function).bind(*method)
  except TypeError as error:
    if method:
      message = f"takes no method, but {method[0]!r} is given."
    else:
      message = f"needs a method: --config={file}:METHOD."
    raise ValueError(f"get_config of {file} {message}") from error


@contextlib.contextmanager
def _explained_errors(file: str) -> Iterator[None]:
  try:
    yield
  except (Exception, SystemExit) as error:
    raise ValueError(_explain(file, error)) from error


def _explain(file: str, error: BaseException) -> str:
  """Return what is wrong with a config file that cannot be executed."""
  # Imported here, so that a missing file is answered at once.
  from experiments.configs import methods
  from pnjax import config as config_lib

  frames = traceback.extract_tb(error.__traceback__)
  if isinstance(error, ValueError) and frames[-1].filename == methods.__file__:
    return str(error)  # About the method, which is not in the file.
  lines = [frame.lineno for frame in frames if _is_same(frame.filename, file)]
  message = str(error)
  if isinstance(error, SyntaxError) and _is_same(error.filename or "", file):
    lines, message = [error.lineno], error.msg
  where = f"{file}, line {lines[-1]}" if lines and lines[-1] else file
  # The messages of `ml_collections` about a field that does not exist.
  found = re.fullmatch(
    r"""['"]+(?:Key "(\w+)" does not exist.*|(\w+))['"]+""", message, re.DOTALL
  )
  if found and isinstance(error, (AttributeError, KeyError)):
    name = found[1] or found[2]
    advice = config_lib.explain_former_field(name) or "pnjax/config.py has all fields"
    return f"{where} uses the field {name!r}, which does not exist: {advice}."
  if isinstance(error, ImportError) and "default" in message:
    return f"{where} imports the former default config, which is pnjax.config now."
  return f"{where}: {type(error).__name__}: {message}"


def _is_same(path: str, other: str) -> bool:
  return os.path.abspath(path) == os.path.abspath(other)
