"""Prepares a dataset for training.

  python -m experiments.prepare fmd --source=FMD
  python -m experiments.prepare folder --source=my_pictures --data_dir=my_datasets

`--source` is the folder that the official archive unpacks to; without it the archive
is downloaded. `textures` has none: it is made by code.
"""

import argparse
from collections.abc import Sequence
import dataclasses
import hashlib
import logging
import pathlib
import shutil
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request
import zipfile

import tqdm

from experiments import cli
from pnjax import data
from pnjax._cache import cache_folder

_CHUNK = 1 << 20
_TIMEOUT_SECONDS = 30


@dataclasses.dataclass(frozen=True)
class Download:
  """A file of an official archive.

  Attributes:
    url: its address.
    sha256: what it has to be, where that is known.
  """

  url: str
  sha256: str | None = None

  @property
  def file(self) -> str:
    """Its name."""
    return self.url.rsplit("/", 1)[-1]


_FLOWERS = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102"

# The checksums are those that TFDS keeps for the same files.
DOWNLOADS: dict[str, list[Download]] = {
  "flower102": [
    Download(
      f"{_FLOWERS}/102flowers.tgz",
      "2d01ecc807db462958cfe3d92f57a8c252b4abd240eb955770201e45f783b246",
    ),
    Download(
      f"{_FLOWERS}/imagelabels.mat",
      "4903e94206bac23bf772aadf06451916df56b58fc483a62db32a97b82656651d",
    ),
    Download(
      f"{_FLOWERS}/setid.mat",
      "46b8678f91fd95d3c8f4feab80d271a6c834a1dd896fe29fd3e6ad9ce5c8dccd",
    ),
  ],
  "mit67": [
    Download("http://groups.csail.mit.edu/vision/LabelMe/NewImages/indoorCVPR_09.tar"),
    Download("https://web.mit.edu/torralba/www/TrainImages.txt"),
    Download("https://web.mit.edu/torralba/www/TestImages.txt"),
  ],
  "fmd": [Download("https://people.csail.mit.edu/celiu/CVPR2010/FMD/FMD.zip")],
  "food101": [
    Download(
      "http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz",
      "d97d15e438b7f4498f96086a4f7e2fa42a32f2712e87d3295441b2b6314053a4",
    ),
  ],
}


def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns its exit status."""
  args = _parse(argv)
  # `force`, because TFDS has set up logging of its own.
  logging.basicConfig(format="%(message)s", stream=sys.stdout, force=True)
  logging.getLogger("pnjax").setLevel(logging.INFO)
  try:
    source = args.source
    if source is None and args.dataset in DOWNLOADS:
      source = fetch(args.dataset, args.downloads)
    folder = data.prepare(
      args.dataset,
      source,
      args.data_dir,
      splits=args.splits,
      overwrite=args.overwrite,
      progress=True,
    )
  except (OSError, ValueError) as error:
    print(f"error: {error}", file=sys.stderr)
    return 1
  print(folder)
  return 0


def fetch(dataset: str, downloads: pathlib.Path) -> pathlib.Path:
  """Returns the folder of an unpacked archive, and downloads it first where needed.

  Args:
    dataset: one of `DOWNLOADS`.
    downloads: folder that files are kept in.
  """
  folder = downloads / dataset
  if folder.is_dir():
    return folder
  downloads.mkdir(parents=True, exist_ok=True)
  files = [_retrieve(download, downloads) for download in DOWNLOADS[dataset]]
  with tempfile.TemporaryDirectory(dir=downloads, prefix=".incomplete-") as temporary:
    for file in files:
      _unpack(file, pathlib.Path(temporary) / dataset)
    (pathlib.Path(temporary) / dataset).rename(folder)
  return folder


def _retrieve(download: Download, folder: pathlib.Path) -> pathlib.Path:
  """Downloads a file, whole or not at all, unless it is there already."""
  file = folder / download.file
  if file.is_file():
    return file
  with tempfile.TemporaryDirectory(dir=folder, prefix=".incomplete-") as temporary:
    part = pathlib.Path(temporary) / download.file
    try:
      digest = _copy(download.url, part)
    except (OSError, urllib.error.URLError) as error:
      raise OSError(
        f"{download.url} cannot be downloaded ({error}); get it elsewhere, unpack it, "
        "and pass its folder as --source."
      ) from error
    if download.sha256 not in (None, digest):
      raise ValueError(
        f"{download.url} has sha256 {digest}, expected {download.sha256}; it is "
        "damaged or another file, and was not used."
      )
    part.rename(file)
  return file


def _copy(url: str, file: pathlib.Path) -> str:
  """Downloads a file; returns its sha256."""
  digest, size = hashlib.sha256(), 0
  with urllib.request.urlopen(url, timeout=_TIMEOUT_SECONDS) as answer:
    total = int(answer.headers.get("Content-Length", 0)) or None
    bar = tqdm.tqdm(
      desc=file.name, total=total, unit="B", unit_scale=True, disable=None
    )
    with bar, file.open("wb") as out:
      while chunk := answer.read(_CHUNK):
        out.write(chunk)
        digest.update(chunk)
        bar.update(len(chunk))
        size += len(chunk)
  if total not in (None, size):
    raise OSError(f"it broke off after {size} of {total} bytes")
  return digest.hexdigest()


def _unpack(file: pathlib.Path, folder: pathlib.Path) -> None:
  """Puts the contents of an archive, or a file that is none, into a folder."""
  folder.mkdir(exist_ok=True)
  try:
    if file.suffix == ".zip":
      shutil.unpack_archive(file, folder)
    elif file.suffix in (".tar", ".tgz", ".gz"):
      shutil.unpack_archive(file, folder, filter="data")
    else:
      shutil.copy(file, folder)
  except (EOFError, shutil.ReadError, tarfile.TarError, zipfile.BadZipFile) as error:
    raise OSError(f"{file} is damaged ({error}); delete it and try again.") from error


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.prepare",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  parser.add_argument("dataset", choices=data.DATASETS)
  parser.add_argument("--source", type=pathlib.Path, help="folder of the pictures")
  parser.add_argument(
    "--data_dir", help="default: $TFDS_DATA_DIR or ~/tensorflow_datasets"
  )
  parser.add_argument(
    "--splits",
    type=pathlib.Path,
    help="fmd: folder of lists train_1.txt, test_1.txt, ... to take as its folds",
  )
  parser.add_argument(
    "--overwrite", action="store_true", help="replace what other pictures gave"
  )
  parser.add_argument(
    "--downloads",
    type=pathlib.Path,
    default=cache_folder() / "downloads",
    help="folder that downloaded archives are kept in; default: %(default)s",
  )
  return parser.parse_args(argv)


if __name__ == "__main__":
  cli.run_plain(main)
