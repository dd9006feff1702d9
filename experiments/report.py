"""Makes a page about one or more finished runs, in one file that needs no other.

  python -m experiments.report --workdir=runs/demo
  python -m experiments.report --workdir=runs/demo --workdir=runs/b --output=both.html

The page has the curves, the accuracy of each class, the confusion matrix, the classes
that are confused most, learned parameters, eigenvalues before and after the Power
Normalization, the config and the versions.
"""

import argparse
from collections.abc import Sequence
import pathlib
import sys

from experiments import cli


@cli.reports_errors()
def main(argv: Sequence[str] | None = None) -> int:
  """Run the command; return its exit status."""
  args = _parse(argv)
  # Imported here, so that --help and a mistyped flag are answered at once.
  from absl import logging

  from experiments.reporting import page
  from pnjax import runtime

  logging.set_verbosity(args.verbosity)
  for workdir in args.workdir:
    if not workdir.is_dir():
      raise FileNotFoundError(f"--workdir is {workdir}, expected the folder of a run.")
  output = args.output or args.workdir[0] / "report.html"
  _check(output)
  # Compilation and figures take a while.
  print(f"making a page about {' and '.join(map(str, args.workdir))}", file=sys.stderr)
  runtime.write_text(output, page.render(args.workdir, args.classifier))
  print(output)
  return 0


def _check(output: pathlib.Path) -> None:
  """Raise an error if the page cannot be written, before it is made."""
  from pnjax import runtime

  if output.is_dir():
    raise IsADirectoryError(f"--output is {output}, a folder, expected a file.")
  if not output.parent.is_dir():
    raise FileNotFoundError(f"there is no folder {output.parent} for the report.")
  advice = "choose another file by --output"
  runtime.make_writable(output.parent, "the folder of the report", advice)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.report",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument(
    "--workdir",
    action="append",
    required=True,
    type=cli.path,
    help="folder of a run; may be given several times",
  )
  parser.add_argument(
    "--output", type=cli.path, help="file (report.html in the first workdir)"
  )
  cli.add_classifier(parser)
  cli.add_verbosity(parser)
  return parser.parse_args(argv)


if __name__ == "__main__":
  cli.run_plain(main)
