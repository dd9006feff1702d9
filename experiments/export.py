"""Writes a trained model as a folder that needs neither pnjax nor Flax.

  python -m experiments.export --workdir=runs/demo --output=model
  python model/predict.py image.jpg

The folder has the network as a function for CPUs, NVIDIA GPUs and TPUs (`jax.export`),
its weights, a config, and `predict.py`, which needs jax, flatbuffers, numpy, pillow and
safetensors. Another run can start from its backbone: `--config.backbone.weights=model`.
"""

import argparse
from collections.abc import Sequence
import pathlib
import time

import numpy as np

from experiments import cli


@cli.reports_errors()
def main(argv: Sequence[str] | None = None) -> int:
  """Run the command; return its exit status."""
  args = _parse(argv)
  # Imported here, so that --help and a mistyped flag are answered at once.
  from absl import logging

  from pnjax import runs

  logging.set_verbosity(args.verbosity)
  folder = runs.export(args.workdir, args.output, args.classifier)
  files = ", ".join(
    f"{path.name} {path.stat().st_size / 1e6:.2f} MB"
    for path in sorted(folder.iterdir())
  )
  print(f"{folder}: {files}")
  print(f"first call: {_seconds_of_first_call(folder):.1f} s, with compilation")
  return 0


def _seconds_of_first_call(folder: pathlib.Path) -> float:
  """Return how long it takes to load an exported model and classify an image."""
  from pnjax import runs

  start = time.monotonic()
  config, predict = runs.load_exported(folder)
  crops = () if config["num_crops"] == 1 else (config["num_crops"],)
  size = config["image_size"]
  np.asarray(predict(np.zeros((1, *crops, size, size, 3), np.uint8)))
  return time.monotonic() - start


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.export",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument(
    "--workdir", required=True, type=cli.path, help="folder of the run"
  )
  parser.add_argument("--output", required=True, type=cli.path, help="folder to write")
  cli.add_classifier(parser)
  cli.add_verbosity(parser)
  return parser.parse_args(argv)


if __name__ == "__main__":
  cli.run_plain(main)
