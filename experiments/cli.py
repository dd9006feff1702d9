"""What all commands share: flags, errors and exit statuses."""

import argparse
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import errno
import functools
import os
import pathlib
import re
import shlex
import sys
import traceback
from typing import Any
import unicodedata

from absl import app
from absl import flags
from absl import logging
import ml_collections
from ml_collections import config_flags

from experiments import config_files
from experiments import interrupts

_Main = Callable[..., int]

# Flags that are defined here belong to the command that calls this module.
flags.disclaim_key_flags()

# Exit status of a command that Ctrl-C ended.
INTERRUPTED = interrupts.INTERRUPTED
# What to do about faults of files.
_ADVICE = {
  errno.EACCES: "; change its permissions, or choose another path",
  errno.EPERM: "; change its permissions, or choose another path",
  errno.EROFS: "; choose another path",
  errno.ENOSPC: "; make room",
  errno.EDQUOT: "; make room",
  errno.EMFILE: "; raise the limit (ulimit -n)",
  errno.EEXIST: "; choose another path",
  errno.ENOTDIR: "; a folder was expected",
  errno.EISDIR: "; a file was expected",
}
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
  flag.parser = _ConfigParser()
  flag.default_as_str = None  # Help would show 'None'.
  return holder


def run(main: Callable[[], int], required: Sequence[str] = ()) -> None:
  """Parse the flags, run a command and end the process with its exit status.

  Args:
    main: The command, which returns its exit status.
    required: Names of flags that must be given.
  """
  advice = "; the same command continues"
  interrupts.end_at_interrupts(advice)
  app.run(
    lambda _: _status(main, advice), flags_parser=lambda argv: _parse(argv, required)
  )


def run_plain(main: Callable[[], int]) -> None:
  """Do the same for a command that parses its own arguments."""
  interrupts.end_at_interrupts()
  sys.exit(_status(main))


def reports_errors(keep_lines: bool = False) -> Callable[[_Main], _Main]:
  """Decorate a command, so that it reports mistakes and faults in one line.

  The command returns the exit status 1 then. `--verbosity=1` adds the traceback. Other
  errors are bugs, and keep their tracebacks.

  Args:
    keep_lines: Whether the message may have several lines.
  """

  def decorate(main: _Main) -> _Main:
    @functools.wraps(main)
    def reporting(*args: Any) -> int:
      try:
        return main(*args)
      except Exception as error:
        if isinstance(error, BrokenPipeError) or not _is_known(error):
          raise
        if logging.get_verbosity() >= logging.DEBUG:
          traceback.print_exc()
        return fail(error, keep_lines)

    return reporting

  return decorate


def _is_known(error: Exception) -> bool:
  if isinstance(error, (ImportError, MemoryError, OSError, ValueError)):
    return True
  # Imported here, so that other errors do not wait for it.
  import jax

  from pnjax import pretrained
  from pnjax import train

  known = (
    jax.errors.JaxRuntimeError,
    pretrained.UnavailableError,
    train.NonFiniteLossError,
  )
  # JAX was told to use devices that are not there.
  without_devices = "Unable to initialize backend" in str(error)
  return isinstance(error, known) or without_devices


def fail(error: Exception | str, keep_lines: bool = False) -> int:
  """Print an error, and return the exit status.

  Args:
    error: What went wrong.
    keep_lines: Whether to print all lines as they are, instead of one.
  """
  text = _out_of_memory(error) or _without_errno(error)
  print("error:", text if keep_lines else " ".join(text.split()), file=sys.stderr)
  return 1


def printable(text: str) -> str:
  """Return a name of the user's with control characters as their escapes.

  They could command the terminal, or reverse the direction of what follows.

  Args:
    text: Name of a class, for instance.
  """
  return "".join(
    c.encode("unicode_escape").decode() if _is_control(c) else c for c in text
  )


def _is_control(character: str) -> bool:
  # Of the format characters (Cf), some scripts need those that join letters.
  return unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or (
    unicodedata.bidirectional(character)
    in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
  )


def _without_errno(error: Exception | str) -> str:
  """Return the text of an error; where the system gave it, with what to do."""
  text = re.sub(r"\[Errno -?\d+\] ", "", str(error))
  if not isinstance(error, OSError) or not str(error).startswith("[Errno "):
    return text
  reason = (error.strerror or text).lower()
  advice = _ADVICE.get(error.errno or 0, "")
  names = " and ".join(str(name) for name in (error.filename, error.filename2) if name)
  return f"{names or 'a file'} cannot be used: {reason}{advice}."


def _out_of_memory(error: Exception | str) -> str | None:
  """Return what to do if memory ran out, and None for other errors."""
  text = str(error)
  if not isinstance(error, MemoryError) and "RESOURCE_EXHAUSTED" not in text:
    return None
  # The words of XLA and of NumPy.
  found = re.search(r"allocat\w+ ([\d.]+) ?(\w+)", text)
  size, unit = found.groups() if found else ("", "")
  if unit == "bytes":
    size, unit = f"{float(size) / 1e9:.3g}", "GB"
  return (
    f"memory ran out{f' when {size} {unit} were asked for' if found else ''}. In "
    "training, a smaller train.batch_size or dataset.image_size, a larger "
    "train.num_microbatches, or backbone.remat=True needs less."
  )


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
  from pnjax import runtime

  return "\n".join(
    f"{name}: top-1 {metrics['top1']:.2%}, mean per class "
    f"{metrics['mean_per_class']:.2%} on "
    f"{runtime.counted(metrics['num_examples'], 'image')}"
    for name, metrics in runs.metrics_by_classifier(result).items()
  )


def path(text: str) -> pathlib.Path:
  """Return the path that an argument names; an empty one would be the current folder.

  Args:
    text: The argument.
  """
  if not text:
    raise argparse.ArgumentTypeError("it is empty, expected a path")
  return pathlib.Path(text)


def add_classifier(parser: argparse.ArgumentParser) -> None:
  """Add `--classifier`, which chooses between the two classifiers of a run."""
  parser.add_argument(
    "--classifier",
    choices=("refit", "softmax"),
    help="classifier of the run to use (classifier.default of its config)",
  )


def add_verbosity(parser: argparse.ArgumentParser) -> None:
  """Add `--verbosity`, which the other commands have from absl."""
  parser.add_argument(
    "--verbosity",
    type=int,
    default=logging.ERROR,
    help="1 for log messages, and the traceback of an error",
  )


def _status(main: Callable[[], int], advice: str = "") -> int:
  """Run a command, and return its exit status unless it was interrupted."""
  try:
    status = main()
    sys.stdout.flush()  # Python would do it at exit, too late to handle an error.
  except KeyboardInterrupt as error:  # Some loops stop gracefully, and then raise it.
    fail(str(error) or f"interrupted{advice}.")
    status = INTERRUPTED
  except BrokenPipeError:  # `| head`, for instance, has read enough.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    status = BROKEN_PIPE
  if status == INTERRUPTED:
    interrupts.end_process(status)
  interrupts.ignore_ctrl_c()
  return status


def _parse(argv: Sequence[str], required: Sequence[str]) -> list[str]:
  verbosity = [arg for arg in argv if re.match("--?verbosity=", arg)]
  try:
    if verbosity:  # First, since it is about the errors of other flags as well.
      flags.FLAGS([argv[0], *verbosity])
    rest = flags.FLAGS(argv)
  except SystemExit:  # --help, for which absl returns 1.
    sys.exit(0)
  except flags.Error as error:
    if logging.get_verbosity() >= logging.DEBUG:
      traceback.print_exc()
    sys.exit(fail(_explain_flag(error)))
  if not flags.FLAGS["verbosity"].present:
    logging.set_verbosity(logging.WARNING)
  missing = [f"--{name}" for name in required if flags.FLAGS[name].value is None]
  if missing:
    sys.exit(fail(f"{' and '.join(missing)} must be given; --help shows an example."))
  for name in ("workdir", "cache"):
    if name in flags.FLAGS and flags.FLAGS[name].value == "":
      sys.exit(fail(f"--{name} is empty, expected a folder."))
  if rest[1:]:
    sys.exit(fail(f"got {' '.join(rest[1:])!r} besides flags, expected flags only."))
  return rest


def _explain_flag(error: flags.Error) -> str:
  """Return what is wrong with the value of a flag, and what is allowed."""
  found = re.fullmatch(r"flag --([\w.]+)=(.*?): (.*)", str(error), re.DOTALL)
  if found is None:
    return str(error)
  name, value, message = found.groups()
  if name == "config":  # The message names the file.
    return message
  if name.startswith("config."):
    from pnjax import config as config_lib

    name = name.removeprefix("config.")
    expected = config_lib.allowed_values(name)
  else:
    flag, name = flags.FLAGS[name], f"--{name}"
    expected = "true or false" if flag.boolean else flag.parser.syntactic_help
  return f"{name} is {value!r}, expected {expected}." if expected else str(error)


class _ConfigParser(flags.ArgumentParser):
  """Reads a config file, and reports in one line what is wrong with it."""

  def parse(self, path: str) -> ml_collections.ConfigDict:
    """Return the config of a file, after checking the fields to be set."""
    from pnjax import config as config_lib

    file, *method = path.split(":", 1)
    config = config_files.read(file)(*method).lock()
    for field in _set_fields(sys.argv):
      config_lib.check_field(config, field)
    return config


def _set_fields(argv: Sequence[str]) -> Iterator[str]:
  for arg in argv:
    if match := re.match(r"--?(?:no)?config\.([^=]+)", arg):
      yield match[1]
