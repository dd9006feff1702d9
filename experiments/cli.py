"""The frame of a command: from its flags to its exit status."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
import os
import re
import sys

from absl import app
from absl import flags
import ml_collections
from ml_collections import config_flags

# Flags that are defined here belong to the command that asks for them, and to its help.
flags.disclaim_key_flags()

# What shells report of a command that Ctrl-C ended; one behind it is not to run.
INTERRUPTED = 130
# And of one whose output nobody read to the end.
BROKEN_PIPE = 141


def define_config() -> flags.FlagHolder[ml_collections.ConfigDict]:
  """Defines `--config`, a file with a method behind a colon, and `--config.FIELD`."""
  holder = config_flags.DEFINE_config_file(
    "config",
    help_string="File of the config and, behind a colon, the method. "
    "--config.GROUP.FIELD=VALUE changes a field.",
  )
  flag = flags.FLAGS["config"]
  flag.parser = _ConfigParser(flag.parser)
  flag.default_as_str = None  # Help would show 'None'.
  return holder


def run(main: Callable[[], int], required: Sequence[str] = ()) -> None:
  """Parses the flags, runs a command and ends the process with its exit status.

  Args:
    main: the command; returns its exit status.
    required: names of flags that must be given.
  """
  app.run(
    lambda _: _interruptible(main), flags_parser=lambda argv: _parse(argv, required)
  )


def run_plain(main: Callable[[], int]) -> None:
  """Runs a command that parses its own arguments, and ends the process likewise."""
  sys.exit(_interruptible(main))


def fail(error: Exception | str) -> int:
  """Says in one line what is wrong; returns the exit status."""
  print("error:", " ".join(str(error).split()), file=sys.stderr)
  return 1


def _interruptible(main: Callable[[], int]) -> int:
  try:
    return main()
  except KeyboardInterrupt as error:
    fail(str(error) or "interrupted.")
    return INTERRUPTED
  except BrokenPipeError:  # Of `| head`, say, which has read enough.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


def _parse(argv: Sequence[str], required: Sequence[str]) -> list[str]:
  try:
    rest = flags.FLAGS(argv)
  except SystemExit:  # Of --help, for which absl returns 1.
    sys.exit(0)
  except flags.Error as error:
    sys.exit(fail(error))
  missing = [f"--{name}" for name in required if flags.FLAGS[name].value is None]
  if missing:
    sys.exit(fail(f"{' and '.join(missing)} must be given; --help shows an example."))
  if rest[1:]:
    sys.exit(fail(f"got {' '.join(rest[1:])!r} besides flags, expected flags only."))
  return rest


class _ConfigParser(flags.ArgumentParser):
  """Says in one line what is wrong with a config."""

  def __init__(self, parser: flags.ArgumentParser):
    self._parser = parser

  def parse(self, path: str) -> ml_collections.ConfigDict:
    """Returns the config of a file, after a look at the fields to be changed."""
    file = path.split(":")[0]
    if not os.path.isfile(file):
      raise ValueError(f"there is no file {file}.")
    try:
      config = self._parser.parse(path)
    except (TypeError, ValueError) as error:
      # Its message is a traceback; what the config itself said is behind it.
      raise ValueError(str(error.__context__)) from error
    for field in _changed_fields(sys.argv):
      _check_field(config, field)
    return config


def _changed_fields(argv: Sequence[str]) -> Iterator[str]:
  for arg in argv:
    if match := re.match(r"--?(?:no)?config\.([^=]+)", arg):
      yield match[1]


def _check_field(config: ml_collections.ConfigDict, field: str) -> None:
  group, path = config, "config"
  for name in field.split("."):
    if not isinstance(group, ml_collections.ConfigDict):
      raise ValueError(f"{path} is a field, but {path}.{name} is to be changed.")
    if name not in group:
      raise ValueError(
        f"{path} has no field {name!r}, expected one of {', '.join(sorted(group))}."
      )
    group, path = group[name], f"{path}.{name}"
