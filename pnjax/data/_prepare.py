"""Preparation: the pictures of an archive into files that TFDS reads."""

from collections.abc import Container
from collections.abc import Iterator
from collections.abc import Sequence
from concurrent import futures
import contextlib
import functools
import hashlib
import io
import json
import logging
import os
import pathlib
import tempfile
import typing

import tensorflow_datasets as tfds
import tqdm

from pnjax.data import _archives
from pnjax.data import _textures
from pnjax.data._decode import decode

DATASETS = ("flower102", "mit67", "fmd", "food101", "folder", "textures")

_VERSION = "1.0.0"
_VERSIONS = dict.fromkeys(DATASETS, _VERSION) | {"textures": _textures.VERSION}
_LOGGER = logging.getLogger(__name__)


def prepare(
  name: str,
  source: str | os.PathLike | None = None,
  data_dir: str | os.PathLike | None = None,
  *,
  splits: str | os.PathLike | None = None,
  overwrite: bool = False,
  progress: bool = False,
) -> pathlib.Path:
  """Writes the pictures of an archive, once each, where `open_split` finds them.

  Pictures are stored as they are, after each of them was decoded. The dataset is
  there as a whole or not at all. Nothing is done if it is there already and the
  pictures, their classes and the splits are the same.

  Args:
    name: one of `DATASETS`.
    source: folder that the official archive unpacks to, or for `folder` that of your
      pictures; None for `textures`.
    data_dir: TFDS's folder of datasets; `$TFDS_DATA_DIR` or `~/tensorflow_datasets`
      if None.
    splits: for `fmd`, folder of lists to take as its folds: `train_1.txt`,
      `test_1.txt` to `test_10.txt` with lines `class/file`.
    overwrite: whether to replace what was prepared from other pictures or splits.
    progress: whether to show progress bars.

  Returns:
    The folder of the prepared dataset.

  Raises:
    ValueError: if pictures are broken; the message names all of them.
    FileExistsError: if the dataset was prepared from something else.
  """
  archive = _read_archive(name, source, splits)
  folder = prepared_folder(name, data_dir)
  before = tfds.builder_from_directory(folder).info.metadata if folder.exists() else {}
  digests = _digests(archive, before.get("digests", ()), progress)
  metadata = _metadata(archive, digests)
  if before == metadata:
    _LOGGER.info("%s is prepared already, from the same pictures.", name)
    return folder
  if before and not overwrite:
    raise FileExistsError(
      f"{folder} was prepared from other pictures or splits ({len(before['digests'])} "
      f"pictures there, {len(digests)} in {source}). Prepare with overwrite=True "
      "(--overwrite) to replace it, or choose another data_dir (--data_dir=DIR)."
    )
  _write(name, archive, metadata, folder, progress)
  return folder


def prepared_folder(name: str, data_dir: str | os.PathLike | None) -> pathlib.Path:
  """Returns where a dataset is once it is prepared."""
  root = pathlib.Path(data_dir or tfds.core.constants.DATA_DIR).expanduser()
  return root / Builder.name / name / _VERSIONS[name]


def check_name(name: str) -> None:
  """Raises an error if there is no dataset of this name."""
  if name not in DATASETS:
    raise ValueError(f"`name` is {name!r}, expected one of {', '.join(DATASETS)}.")


class Builder(tfds.core.GeneratorBasedBuilder):
  """Writes an archive in the order in which it lists its pictures.

  Every dataset is a configuration of this builder. Labels, digests and splits are in
  its metadata, so that they are known without reading pictures.
  """

  name = "pnjax"
  VERSION = tfds.core.Version(_VERSION)
  BUILDER_CONFIGS: typing.ClassVar = [
    tfds.core.BuilderConfig(name=name, version=version)
    for name, version in _VERSIONS.items()
  ]
  # Keeps TFDS from a search for checksums of downloads, of which there are none; it
  # would import a module that it does not depend on.
  code_path = None

  def __init__(
    self,
    *,
    archive: _archives.Archive,
    metadata: dict,
    progress: bool,
    **kwargs,
  ):
    self._archive = archive
    self._metadata = metadata
    self._no_bar = None if progress else True
    super().__init__(file_format="array_record", **kwargs)

  def _info(self) -> tfds.core.DatasetInfo:
    features = {
      "image": tfds.features.Image(shape=(None, None, None)),
      "label": tfds.features.ClassLabel(names=self._archive.class_names),
      "file": tfds.features.Text(),
    }
    return tfds.core.DatasetInfo(
      builder=self,
      features=tfds.features.FeaturesDict(features),
      metadata=tfds.core.MetadataDict(self._metadata),
      disable_shuffling=True,
    )

  def _split_generators(self, dl_manager) -> dict[str, Iterator]:
    stored = self._archive.stored
    return {split: self._generate_examples(stored[split]) for split in stored}

  def _generate_examples(self, pictures: Sequence[_archives.Picture]) -> Iterator:
    bar = functools.partial(tqdm.tqdm, desc="writing", disable=self._no_bar)
    for i, picture in enumerate(bar(pictures, unit=" pictures")):
      example = {"image": picture.read(), "label": picture.label, "file": picture.file}
      yield i, example


def _read_archive(
  name: str, source: str | os.PathLike | None, splits: str | os.PathLike | None
) -> _archives.Archive:
  check_name(name)
  if splits is not None and name != "fmd":
    raise ValueError(f"`splits` is {splits}, expected None: only fmd takes lists.")
  if name == "textures":
    if source is not None:
      raise ValueError(f"`source` is {source}, expected None: textures are made.")
    return _textures.archive()
  if source is None or not os.path.isdir(source):
    raise FileNotFoundError(
      f"`source` is {source}, expected a folder: for {name} the one "
      + ("of your pictures." if name == "folder" else "its archive unpacks to.")
    )
  arguments = {"splits": pathlib.Path(splits)} if splits is not None else {}
  return getattr(_archives, name)(pathlib.Path(source), **arguments)


def _digests(
  archive: _archives.Archive, known: Sequence[str], progress: bool
) -> list[str]:
  """Returns the sha256 of every picture, after it was found to be whole."""
  pictures = [p for stored in archive.stored.values() for p in stored]
  inspect = functools.partial(_inspect, known=frozenset(known))
  with futures.ThreadPoolExecutor(os.cpu_count()) as executor:
    results = tqdm.tqdm(
      executor.map(inspect, pictures),
      desc="checking",
      total=len(pictures),
      unit=" pictures",
      disable=None if progress else True,  # None: shown in terminals only.
    )
    digests, errors = zip(*results, strict=True)
  broken = [
    f"{picture.path}: {error}"
    for picture, error in zip(pictures, errors, strict=True)
    if error
  ]
  if broken:
    raise ValueError(
      f"{len(broken)} of {len(pictures)} pictures are broken; get them again, or take "
      "them out if no list names them. Nothing was prepared.\n" + "\n".join(broken)
    )
  return list(digests)


def _inspect(
  picture: _archives.Picture, known: Container[str]
) -> tuple[str, Exception | None]:
  """Returns the sha256 of a picture, and what is wrong with it."""
  try:
    content = picture.read()
    digest = hashlib.sha256(content).hexdigest()
    if digest not in known:
      decode(content)
  except (OSError, ValueError) as error:
    return "", error
  return digest, None


def _metadata(archive: _archives.Archive, digests: Sequence[str]) -> dict:
  """Describes an archive, in JSON's types."""
  ranges, start = {}, 0
  for split, pictures in archive.stored.items():
    ranges[split] = list(range(start, start + len(pictures)))
    start += len(pictures)
  pictures = [p for stored in archive.stored.values() for p in stored]
  files = json.dumps([archive.class_names, [p.file for p in pictures]])
  return {
    "stored": list(archive.stored),
    "splits": dict(archive.lists) or ranges,
    "labels": [p.label for p in pictures],
    "digests": list(digests),
    "names": hashlib.sha256(files.encode()).hexdigest(),
  }


def _write(
  name: str,
  archive: _archives.Archive,
  metadata: dict,
  folder: pathlib.Path,
  progress: bool,
) -> None:
  """Writes a dataset beside its place, then moves it there."""
  root = folder.parents[2]
  root.mkdir(parents=True, exist_ok=True)
  folder.parent.mkdir(parents=True, exist_ok=True)
  with tempfile.TemporaryDirectory(dir=root, prefix=".incomplete-") as temporary:
    builder = Builder(
      archive=archive,
      metadata=metadata,
      progress=progress,
      config=name,
      data_dir=temporary,
    )
    with _quiet_tfds():
      builder.download_and_prepare()
    if folder.exists():
      folder.rename(pathlib.Path(temporary) / "replaced")
    try:
      pathlib.Path(builder.data_path).rename(folder)
    except OSError:
      # Another process may have prepared the same in the meantime.
      if not folder.exists():
        raise


@contextlib.contextmanager
def _quiet_tfds() -> Iterator[None]:
  """Silences TFDS, which speaks of downloads where there are none."""
  tfds.disable_progress_bar()
  try:
    with contextlib.redirect_stdout(io.StringIO()):
      yield
  finally:
    tfds.enable_progress_bar()
