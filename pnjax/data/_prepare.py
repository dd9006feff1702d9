"""Preparation of archives as datasets that TFDS reads."""

from collections.abc import Callable
from collections.abc import Container
from collections.abc import Iterator
from collections.abc import Mapping
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
from typing import Any
from typing import ClassVar

import tensorflow_datasets as tfds
import tqdm

from pnjax.data import _class_folders
from pnjax.data import _label_file
from pnjax.data import _layouts
from pnjax.data import _textures
from pnjax.data._archive import Archive
from pnjax.data._archive import ArchiveImage
from pnjax.data._decode import decode

_READERS: dict[str, Callable[..., Archive]] = {
  "flower102": _layouts.read_flower102,
  "mit67": _layouts.read_mit67,
  "fmd": _layouts.read_fmd,
  "food101": _layouts.read_food101,
  "folder": _class_folders.read_folder,
}
DATASETS = (*_READERS, "textures")

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
  """Write the images of an archive, each once, to where `open_split` finds them.

  Each image is decoded as a check, and stored unchanged. The dataset is written
  completely or not at all. It is not written again if images, classes and splits are
  the same.

  Args:
    name: One of `DATASETS`.
    source: Folder that the official archive unpacks to, or for `folder` the folder of
      your images or a CSV file of `path`, `label` and maybe `split`; None for
      `textures`.
    data_dir: TFDS's folder of datasets; `$TFDS_DATA_DIR` or `~/tensorflow_datasets`
      if None.
    splits: Folder of lists `train_1.txt`, `test_1.txt` to `test_10.txt`, with lines
      `class/file`, to use as the folds of `fmd`.
    overwrite: Whether to replace a dataset of other images or splits.
    progress: Whether to show progress bars.

  Returns:
    The folder of the prepared dataset.

  Raises:
    ValueError: if images are broken; the message lists them all.
    FileExistsError: if the dataset exists, with other images or splits.
  """
  archive = _read_archive(name, source, splits)
  _check_class_names(archive.class_names)
  folder = prepared_folder(name, data_dir)
  before = tfds.builder_from_directory(folder).info.metadata if folder.exists() else {}
  digests = _digests(archive, before.get("digests", ()), progress)
  metadata = _metadata(archive, digests)
  if _contents(before) == _contents(metadata):
    _LOGGER.info("%s is already prepared from the same images.", name)
    return folder
  if before and not overwrite:
    raise FileExistsError(
      f"{folder} was prepared from other images or splits ({len(before['digests'])} "
      f"images there, {len(digests)} in {source}); replace it with overwrite=True "
      "(--overwrite), or choose another data_dir (--data_dir=DIR)."
    )
  _write(name, archive, metadata, folder, progress)
  return folder


def prepared_folder(name: str, data_dir: str | os.PathLike | None) -> pathlib.Path:
  """Return the folder of a dataset, prepared or not."""
  return data_root(data_dir) / Builder.name / name / _VERSIONS[name]


def data_root(data_dir: str | os.PathLike | None) -> pathlib.Path:
  """Return TFDS's folder of datasets."""
  return pathlib.Path(data_dir or tfds.core.constants.DATA_DIR).expanduser()


def check_name(name: str) -> None:
  """Raise an error if no dataset has this name."""
  if name not in DATASETS:
    raise ValueError(f"`name` is {name!r}, expected one of {', '.join(DATASETS)}.")


class Builder(tfds.core.GeneratorBasedBuilder):
  """Writes the images of an archive in their order.

  Each dataset is a config of this builder. Labels, digests and splits are stored as
  metadata, so that they can be read without the images.
  """

  name = "pnjax"
  VERSION = tfds.core.Version(_VERSION)
  BUILDER_CONFIGS: ClassVar = [
    tfds.core.BuilderConfig(name=name, version=version)
    for name, version in _VERSIONS.items()
  ]
  # Keeps TFDS from looking for checksums of downloads, for which it would import a
  # module that is not one of its dependencies.
  code_path = None

  def __init__(
    self,
    *,
    archive: Archive,
    metadata: dict[str, Any],
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

  def _generate_examples(self, images: Sequence[ArchiveImage]) -> Iterator:
    bar = tqdm.tqdm(images, desc="writing", unit=" images", disable=self._no_bar)
    for i, image in enumerate(bar):
      yield i, {"image": image.read(), "label": image.label, "file": image.file}


def _read_archive(
  name: str, source: str | os.PathLike | None, splits: str | os.PathLike | None
) -> Archive:
  check_name(name)
  if splits is not None and name != "fmd":
    raise ValueError(f"`splits` is {splits}, expected None: only fmd takes lists.")
  if name == "textures":
    if source is not None:
      raise ValueError(f"`source` is {source}, expected None: textures are synthetic.")
    return _textures.archive()
  if name == "folder" and source is not None and os.path.isfile(source):
    return _label_file.read_label_file(pathlib.Path(source))
  if source is None or not os.path.isdir(source):
    contents = f"that {name} unpacks to"
    if name == "folder":
      contents = "of your images, or a CSV file of their paths and labels"
    raise FileNotFoundError(f"`source` is {source}, expected the folder {contents}.")
  arguments = {"splits": pathlib.Path(splits)} if splits is not None else {}
  return _READERS[name](pathlib.Path(source), **arguments)


def _check_class_names(names: Sequence[str]) -> None:
  """Raise ValueError for names that TFDS would change: it stores one in each line."""
  changed = [name for name in names if name != name.strip() or "\n" in name]
  if changed:
    raise ValueError(
      f"{len(changed)} classes have line breaks, or spaces around their names, such as "
      f"{changed[0]!r}; rename them."
    )


def _digests(archive: Archive, known: Sequence[str], progress: bool) -> list[str]:
  """Return the sha256 of each image, after checking that none is broken.

  Args:
    archive: Images to read.
    known: Digests of images that were checked before.
    progress: Whether to show a progress bar.
  """
  images = archive.images
  inspect = functools.partial(_inspect, known=frozenset(known))
  with futures.ThreadPoolExecutor(os.cpu_count()) as executor:
    results = tqdm.tqdm(
      executor.map(inspect, images),
      desc="checking",
      total=len(images),
      unit=" images",
      disable=None if progress else True,  # None shows it in terminals only.
    )
    digests, errors = zip(*results, strict=True)
  broken = [
    f"{image}: {error}" for image, error in zip(images, errors, strict=True) if error
  ]
  if broken:
    raise ValueError(
      f"{len(broken)} of {len(images)} images are broken; get them again, or remove "
      "those that no list names. Nothing was prepared.\n" + "\n".join(broken)
    )
  return list(digests)


def _inspect(
  image: ArchiveImage, known: Container[str]
) -> tuple[str, Exception | None]:
  """Return the sha256 of an image, and the error if it is broken."""
  try:
    content = image.read()
    digest = hashlib.sha256(content).hexdigest()
    if digest not in known:
      decode(content)
  except (OSError, ValueError) as error:
    return "", error
  return digest, None


def _metadata(archive: Archive, digests: Sequence[str]) -> dict[str, Any]:
  """Return a description of an archive that JSON can represent."""
  ranges, start = {}, 0
  for split, group in archive.stored.items():
    ranges[split] = list(range(start, start + len(group)))
    start += len(group)
  images = archive.images
  files = json.dumps([archive.class_names, [image.file for image in images]])
  return {
    "stored": list(archive.stored),
    "splits": dict(archive.lists) or ranges,
    "labels": [image.label for image in images],
    "digests": list(digests),
    "names": hashlib.sha256(files.encode()).hexdigest(),
  }


def _contents(metadata: Mapping[str, Any]) -> dict[str, Any]:
  """Return metadata without group names, which differ in earlier versions."""
  return {key: value for key, value in metadata.items() if key != "stored"}


def _write(
  name: str,
  archive: Archive,
  metadata: dict[str, Any],
  folder: pathlib.Path,
  progress: bool,
) -> None:
  """Write a dataset to a temporary folder, then move it into place."""
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
      # Another process may have prepared the dataset in the meantime.
      if not folder.exists():
        raise


@contextlib.contextmanager
def _quiet_tfds() -> Iterator[None]:
  """Silences TFDS, which reports downloads although there are none."""
  tfds.disable_progress_bar()
  try:
    with contextlib.redirect_stdout(io.StringIO()):
      yield
  finally:
    tfds.enable_progress_bar()
