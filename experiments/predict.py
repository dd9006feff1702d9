"""Classifies images with a trained model.

  python -m experiments.predict --workdir=runs/demo image.jpg folder_of_images

Prints the five most probable classes of each image; `--json` prints one JSON object per
image instead, for programs.
"""

import argparse
from collections.abc import Iterator
from collections.abc import Sequence
import json
import pathlib
import sys

import numpy as np

from experiments import cli

# Number of images in memory at once.
_CHUNK = 64


@cli.reports_errors()
def main(argv: Sequence[str] | None = None) -> int:
  """Run the command; return its exit status."""
  args = _parse(argv)
  # Imported here, so that --help and a mistyped flag are answered at once.
  from absl import logging

  from pnjax import runs

  logging.set_verbosity(args.verbosity)
  paths = list(_find_images(args.images))
  trained = runs.load(args.workdir, args.classifier)
  if runs.read_result(args.workdir) is None:
    print(
      f"{args.workdir} is not finished; this is its model after step {trained.step}",
      file=sys.stderr,
    )
  status = 0
  for start in range(0, len(paths), _CHUNK):
    read, broken = _read(paths[start : start + _CHUNK])
    for error in broken:
      status = cli.fail(error)
    if read:
      rows = trained.predict([image for _, image in read])
      for (path, _), row in zip(read, rows, strict=True):
        _print(path, row, trained.class_names, args.top, args.json)
  return status


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.predict",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument("images", nargs="+", type=cli.path, help="files or folders")
  parser.add_argument(
    "--workdir", required=True, type=cli.path, help="folder of the run"
  )
  cli.add_classifier(parser)
  parser.add_argument("--top", type=int, default=5, help="classes to print (5)")
  parser.add_argument("--json", action="store_true", help="JSON lines for programs")
  cli.add_verbosity(parser)
  args = parser.parse_args(argv)
  if args.top < 1:
    parser.error(f"--top is {args.top}, expected at least 1.")
  return args


def _find_images(paths: Sequence[pathlib.Path]) -> Iterator[pathlib.Path]:
  from pnjax import data

  for path in paths:
    if path.is_dir():
      inside = data.image_files(path)
      if not inside:
        raise ValueError(f"{path} has no images in it.")
      yield from inside
    elif path.exists():
      yield path
    else:
      raise FileNotFoundError(f"there is no file {path}.")


def _read(
  paths: Sequence[pathlib.Path],
) -> tuple[list[tuple[pathlib.Path, np.ndarray]], list[Exception]]:
  """Return images with their paths, and the errors of those that are broken."""
  from pnjax import data

  read, broken = [], []
  for path in paths:
    try:
      read.append((path, data.decode(path)))
    except (OSError, ValueError) as error:
      broken.append(error)
  return read, broken


def _print(path, probabilities, class_names, top, as_json):
  order = np.argsort(-probabilities, kind="stable")[:top]
  if as_json:
    classes = [
      {"class": class_names[i], "probability": float(probabilities[i])} for i in order
    ]
    print(json.dumps({"file": str(path), "top": classes}), flush=True)
    return
  print(cli.printable(str(path)))
  for i in order:
    print(f"  {probabilities[i]:7.2%}  {cli.printable(class_names[i])}")


if __name__ == "__main__":
  cli.run_plain(main)
