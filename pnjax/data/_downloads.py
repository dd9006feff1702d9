"""Official archives, downloaded once."""

import dataclasses
import gzip
import pathlib
import shutil
import stat
import tarfile
import zipfile
import zlib

from pnjax import runtime


@dataclasses.dataclass(frozen=True)
class RemoteFile:
  """A file of an official archive.

  Attributes:
    url: Address of the file.
    sha256: Expected digest; not checked if None.
  """

  url: str
  sha256: str | None = None

  @property
  def name(self) -> str:
    """Name of the file."""
    return self.url.rsplit("/", 1)[-1]


# What damaged archives make Python raise; RuntimeError for a password.
_DAMAGE = (
  EOFError,
  RuntimeError,
  gzip.BadGzipFile,
  shutil.ReadError,
  tarfile.TarError,
  zipfile.BadZipFile,
  zlib.error,
)
_FLOWERS = "https://www.robots.ox.ac.uk/~vgg/data/flowers/102"

# The digests are those that TFDS records for the same files.
OFFICIAL_ARCHIVES: dict[str, tuple[RemoteFile, ...]] = {
  "flower102": (
    RemoteFile(
      f"{_FLOWERS}/102flowers.tgz",
      "2d01ecc807db462958cfe3d92f57a8c252b4abd240eb955770201e45f783b246",
    ),
    RemoteFile(
      f"{_FLOWERS}/imagelabels.mat",
      "4903e94206bac23bf772aadf06451916df56b58fc483a62db32a97b82656651d",
    ),
    RemoteFile(
      f"{_FLOWERS}/setid.mat",
      "46b8678f91fd95d3c8f4feab80d271a6c834a1dd896fe29fd3e6ad9ce5c8dccd",
    ),
  ),
  "mit67": (
    RemoteFile(
      "http://groups.csail.mit.edu/vision/LabelMe/NewImages/indoorCVPR_09.tar"
    ),
    RemoteFile("https://web.mit.edu/torralba/www/TrainImages.txt"),
    RemoteFile("https://web.mit.edu/torralba/www/TestImages.txt"),
  ),
  "fmd": (RemoteFile("https://people.csail.mit.edu/celiu/CVPR2010/FMD/FMD.zip"),),
  "food101": (
    RemoteFile(
      "http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz",
      "d97d15e438b7f4498f96086a4f7e2fa42a32f2712e87d3295441b2b6314053a4",
    ),
  ),
}


def fetch_archive(dataset: str, downloads: pathlib.Path | None = None) -> pathlib.Path:
  """Download and unpack an official archive, unless that was done before.

  The archive is unpacked completely or not at all.

  Args:
    dataset: One of `OFFICIAL_ARCHIVES`.
    downloads: Folder to keep archives in; `downloads` in `$PNJAX_CACHE` or
      `~/.cache/pnjax` if None.

  Returns:
    The folder of the unpacked archive, the `source` of `prepare`.

  Raises:
    DownloadError: if a file cannot be downloaded.
    ValueError: if a file has another digest than the official one.
  """
  if dataset not in OFFICIAL_ARCHIVES:
    raise ValueError(
      f"`dataset` is {dataset!r}, expected one of {', '.join(OFFICIAL_ARCHIVES)}."
    )
  if downloads is None:
    downloads = runtime.cache_folder() / "downloads"
  folder = downloads / dataset
  if folder.is_dir():
    return folder
  advice = "choose another folder by $PNJAX_CACHE or --downloads"
  runtime.make_writable(downloads, "the folder of downloads", advice)
  files = [_fetch_file(remote, downloads) for remote in OFFICIAL_ARCHIVES[dataset]]
  with runtime.temporary_folder(downloads) as temporary:
    unpacked = temporary / dataset
    unpacked.mkdir()
    for file in files:
      _unpack(file, unpacked)
    unpacked.rename(folder)
  return folder


def _fetch_file(remote: RemoteFile, folder: pathlib.Path) -> pathlib.Path:
  file = folder / remote.name
  if file.is_file():
    return file
  try:
    runtime.download(remote.url, file, remote.sha256)
  except runtime.DownloadError as error:
    raise runtime.DownloadError(
      f"{error}; get it elsewhere, unpack it, and pass its folder as --source."
    ) from error
  return file


def _unpack(file: pathlib.Path, folder: pathlib.Path) -> None:
  """Unpack an archive into a folder, or copy a file that is not an archive."""
  try:
    if file.suffix == ".zip":
      _check_zip(file)
      shutil.unpack_archive(file, folder)
    elif file.suffix in (".tar", ".tgz", ".gz"):
      shutil.unpack_archive(file, folder, filter="data")
    else:
      shutil.copy(file, folder)
  except tarfile.FilterError as error:
    raise _unsafe(file, str(error)) from error
  except _DAMAGE as error:
    raise OSError(f"{file} is damaged ({error}); delete it and try again.") from error
  except OSError as error:
    raise OSError(f"{file} cannot be unpacked to {folder} ({error}).") from error


def _check_zip(file: pathlib.Path) -> None:
  """Raise ValueError for members that Python would skip, or write as other files."""
  with zipfile.ZipFile(file) as archive:
    for member in archive.infolist():
      path = pathlib.PurePosixPath(member.filename.replace("\\", "/"))
      is_link = stat.S_ISLNK(member.external_attr >> 16)
      if is_link or path.is_absolute() or ".." in path.parts:
        raise _unsafe(file, f"{member.filename!r} is a link or outside of its folder")


def _unsafe(file: pathlib.Path, reason: str) -> ValueError:
  return ValueError(
    f"{file} is not safe to unpack ({reason}), and was not used; get the archive "
    "elsewhere, unpack it, and pass its folder as --source."
  )
