"""What all commands share: flags, errors and exit statuses."""

import argparse
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import os
import re
import shlex
import sys
from typing import Any

from absl import app
from absl import flags
import ml_collections
from ml_collections import config_flags

from experiments import interrupts

# Flags that are defined here belong to the command that calls this module.
flags.disclaim_key_flags()

# Exit status of a command that Ctrl-C ended.
INTERRUPTED = interrupts.INTERRUPTED
# Exit status of a command whose output was not read to the end.
BROKEN_PIPE = 141


def define_config() -> flags.FlagHolder[ml_collections.ConfigDict]:
  """Define `--config`, a file and a method after a colon, and `--config.FIELD`."""
  holder = config_flags.DEFINE_config_file(
    "config",
    help_string="File of the config and, after a colon, the method. "
    "--config.GROUP.FIELD=VALUE sets a field.",
  )
  flag = flags.FLAGS["config"]
  flag.parser = _ConfigParser(flag.parser)
  flag.default_as_str = None  # Help would show 'None'.
  return holder


def run(main: Callable[[], int], required: Sequence[str] = ()) -> None:
  """Parse the flags, run a command and end the process with its exit status.

  Args:
    main: The command, which returns its exit status.
    required: Names of flags that must be given.
  """
  app.run(
    lambda _: _interruptible(main), flags_parser=lambda argv: _parse(argv, required)
  )


def run_plain(main: Callable[[], int]) -> None:
  """Do the same for a command that parses its own arguments."""
  sys.exit(_interruptible(main))


def known_errors() -> tuple[type[Exception], ...]:
  """Return the errors of training that are reported in one line."""
  from pnjax import pretrained
  from pnjax import train

  return (
    ImportError,
    OSError,
    ValueError,
    pretrained.UnavailableError,
    train.NonFiniteLossError,
  )


def fail(error: Exception | str) -> int:
  """Print an error in one line, and return the exit status."""
  print("error:", " ".join(str(error).split()), file=sys.stderr)
  return 1


def command_line(module: str, changes: Mapping[str, str | None] | None = None) -> str:
  """Return the command that runs now, for those who want to repeat it.

  Args:
    module: Module of the command.
    changes: Flags with other values than now; those with None are left out.
  """
  args = sys.argv[1:]
  for name, value in (changes or {}).items():
    args = _without_flag(args, name)
    if value is not None:
      args.append(f"--{name}={value}")
  return shlex.join(["python", "-m", module, *args])


def _without_flag(args: Sequence[str], name: str) -> list[str]:
  kept, rest = [], iter(args)
  for arg in rest:
    if re.fullmatch(f"--?{name}", arg):
      next(rest)  # Its value.
    elif not re.match(f"--?{name}=", arg):
      kept.append(arg)
  return kept


def describe_result(result: Mapping[str, Any]) -> str:
  """Return the accuracies of the classifiers of a run, one per line."""
  from pnjax import runs

  return "\n".join(
    f"{name}: top-1 {metrics['top1']:.2%}, mean per class "
    f"{metrics['mean_per_class']:.2%} on {metrics['num_examples']} images"
    for name, metrics in runs.metrics_by_classifier(result).items()
  )


def add_classifier(parser: argparse.ArgumentParser) -> None:
  """Add `--classifier`, which chooses between the two classifiers of a run."""
  parser.add_argument(
    "--classifier",
    choices=("refit", "softmax"),
    help="classifier of the run to use (classifier.default of its config)",
  )


def _interruptible(main: Callable[[], int]) -> int:
  try:
    with interrupts.raise_interrupts():
      status = main()
    sys.stdout.flush()  # Python would do it at exit, too late to handle an error.
    return status
  except KeyboardInterrupt as error:
    fail(str(error) or "interrupted.")
    return INTERRUPTED
  except BrokenPipeError:  # `| head`, for instance, has read enough.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


def _parse(argv: Sequence[str], required: Sequence[str]) -> list[str]:
  try:
    rest = flags.FLAGS(argv)
  except SystemExit:  # --help, for which absl returns 1.
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
  """Reports in one line what is wrong with a config."""

  def __init__(self, parser: flags.ArgumentParser):
    self._parser = parser

  def parse(self, path: str) -> ml_collections.ConfigDict:
    """Return the config of a file, after checking the fields to be set."""
    file = path.split(":")[0]
    if not os.path.isfile(file):
      raise ValueError(f"there is no file {file}.")
    from pnjax import config as config_lib

    try:
      config = self._parser.parse(path)
    except (AttributeError, ImportError, KeyError, SyntaxError) as error:
      raise ValueError(_explain(file, error)) from error
    except (TypeError, ValueError) as error:
      # The message is a traceback; its context is what the file itself raised.
      raise ValueError(str(error.__context__)) from error
    for field in _set_fields(sys.argv):
      config_lib.check_field(config, field)
    return config


def _set_fields(argv: Sequence[str]) -> Iterator[str]:
  for arg in argv:
    if match := re.match(r"--?(?:no)?config\.([^=]+)", arg):
      yield match[1]


def _explain(file: str, error: Exception) -> str:
  """Return what is wrong with a config file that cannot be executed."""
  from pnjax import config as config_lib

  # The messages of `ml_collections` about a field that does not exist.
  found = re.fullmatch(
    r"""['"]+(?:Key "(\w+)" does not exist.*|(\w+))['"]+""", str(error), re.DOTALL
  )
  if not found:
    if isinstance(error, ImportError) and "default" in str(error):
      return f"{file} imports the former default config, which is pnjax.config now."
    return f"{file}: {error}"
  name = found[1] or found[2]
  advice = config_lib.explain_former_field(name) or "pnjax/config.py has all fields"
  return f"{file} uses the field {name!r}, which does not exist: {advice}."
