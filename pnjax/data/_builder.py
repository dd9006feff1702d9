"""Writing of archives as datasets that TFDS reads."""

from collections.abc import Iterator
from collections.abc import Sequence
import contextlib
import hashlib
import io
import pathlib
from typing import Any
from typing import ClassVar

import tensorflow_datasets as tfds
import tqdm

from pnjax import runtime
from pnjax.data import _stored
from pnjax.data import _textures
from pnjax.data._archive import Archive
from pnjax.data._archive import ArchiveImage

DATASETS = ("flower102", "mit67", "fmd", "food101", "folder", "textures")
_VERSION = "1.0.0"
VERSIONS = dict.fromkeys(DATASETS, _VERSION) | {"textures": _textures.VERSION}


class Builder(tfds.core.GeneratorBasedBuilder):
  """Writes the images of an archive in their order.

  Each dataset is a config of this builder. Labels, digests and splits are stored as
  metadata, so that they can be read without the images.
  """

  name = "pnjax"
  VERSION = tfds.core.Version(_VERSION)
  BUILDER_CONFIGS: ClassVar = [
    tfds.core.BuilderConfig(name=name, version=version)
    for name, version in VERSIONS.items()
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
    digests = iter(self._metadata["digests"])
    return {
      split: self._generate_examples(images, [next(digests) for _ in images])
      for split, images in self._archive.stored.items()
    }

  def _generate_examples(
    self, images: Sequence[ArchiveImage], digests: Sequence[str]
  ) -> Iterator:
    bar = tqdm.tqdm(images, desc="writing", unit=" images", disable=self._no_bar)
    for i, (image, digest) in enumerate(zip(bar, digests, strict=True)):
      content = image.read()
      if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError(f"{image} has changed since it was checked")
      yield i, {"image": content, "label": image.label, "file": image.file}


def write(
  name: str,
  archive: Archive,
  metadata: dict[str, Any],
  folder: pathlib.Path,
  progress: bool,
) -> None:
  """Write a dataset to a temporary folder, then move it into place.

  Args:
    name: One of `DATASETS`.
    archive: What to write.
    metadata: What to write beside it.
    folder: Folder of the dataset; it is replaced if it exists.
    progress: Whether to show a progress bar.

  Raises:
    OSError: if an image cannot be read, or the dataset cannot be written.
  """
  root = folder.parents[2]
  try:
    with runtime.temporary_folder(root) as temporary:
      builder = Builder(
        archive=archive,
        metadata=metadata,
        progress=progress,
        config=name,
        data_dir=str(temporary),
      )
      with _quiet_tfds():
        builder.download_and_prepare()
      written = pathlib.Path(builder.data_path)
      _stored.check_records(name, written, progress)
      if folder.exists():
        folder.rename(temporary / "replaced")
      _move(written, folder)
  except Exception as error:  # TFDS gives errors of files other types.
    raise OSError(
      f"{name} cannot be written to {root} ({' '.join(str(error).split())}); nothing "
      "was prepared or replaced. The same command starts again."
    ) from error


def _move(written: pathlib.Path, folder: pathlib.Path) -> None:
  try:
    written.rename(folder)
  except OSError:
    # Another machine may have prepared the dataset in the meantime.
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
