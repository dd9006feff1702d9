"""Solves the classifier of a finished run in closed form.

  python -m experiments.refit --workdir=runs/demo

`experiments.main` does the same at the end of a run, unless `classifier.refit` is
False. The softmax layer that was trained is kept: `--classifier=softmax` of the other
commands uses it.
"""

import argparse
from collections.abc import Sequence

from experiments import cli


@cli.reports_errors()
def main(argv: Sequence[str] | None = None) -> int:
  """Run the command; return its exit status."""
  args = _parse(argv)
  # Imported here, so that --help and a mistyped flag are answered at once.
  from absl import logging

  from pnjax import runtime
  from pnjax import train

  logging.set_verbosity(args.verbosity)
  runtime.keep_freed_memory()
  result = train.refit_run(args.workdir, cache=args.cache)
  print(cli.describe_result(result))
  return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.refit",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument(
    "--workdir", required=True, type=cli.path, help="folder of the run"
  )
  parser.add_argument("--cache", help="folder of cached features")
  cli.add_verbosity(parser)
  return parser.parse_args(argv)


if __name__ == "__main__":
  cli.run_plain(main)
