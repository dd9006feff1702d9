"""Prepares a dataset for training.

  python -m experiments.prepare fmd --source=FMD
  python -m experiments.prepare folder --source=my_images --data_dir=my_datasets
  python -m experiments.prepare folder --source=labels.csv

`--source` is the folder that the official archive unpacks to; without it, the archive
is downloaded. `textures` needs none: its images are synthetic.

For `folder`, it is a folder of class folders (or of train, validation and test with
class folders), or a CSV file. The first line of the file is `path,label` or
`path,label,split`; paths are relative to the file, and splits are train, validation and
test.
"""

import argparse
from collections.abc import Sequence
import logging
import sys

from absl import logging as absl_logging

from experiments import cli
from pnjax import data


@cli.reports_errors(keep_lines=True)  # A list of broken images has several.
def main(argv: Sequence[str] | None = None) -> int:
  """Run the command, and return its exit status."""
  args = _parse(argv)
  # `force`, because TFDS has already configured logging.
  logging.basicConfig(format="%(message)s", stream=sys.stdout, force=True)
  logging.getLogger("pnjax").setLevel(logging.INFO)
  absl_logging.set_verbosity(args.verbosity)
  source = args.source
  if source is None and args.dataset in data.OFFICIAL_ARCHIVES:
    source = data.fetch_archive(args.dataset, args.downloads)
  folder = data.prepare(
    args.dataset,
    source,
    args.data_dir,
    splits=args.splits,
    overwrite=args.overwrite,
    progress=True,
  )
  print(folder)
  return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.prepare",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument("dataset", choices=data.DATASETS)
  parser.add_argument(
    "--source", type=cli.path, help="folder of the images, or CSV file"
  )
  parser.add_argument(
    "--data_dir", type=cli.path, help="default: $TFDS_DATA_DIR or ~/tensorflow_datasets"
  )
  parser.add_argument(
    "--splits",
    type=cli.path,
    help="fmd: folder of lists train_1.txt, test_1.txt, ... to use as folds",
  )
  parser.add_argument(
    "--overwrite",
    action="store_true",
    help="replace a dataset of other images or splits",
  )
  parser.add_argument(
    "--downloads",
    type=cli.path,
    help="folder to keep downloaded archives in; default: downloads in $PNJAX_CACHE "
    "or ~/.cache/pnjax",
  )
  cli.add_verbosity(parser)
  return parser.parse_args(argv)


if __name__ == "__main__":
  cli.run_plain(main)
