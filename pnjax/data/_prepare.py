"""Preparation: archives into array_record files that TFDS reads."""

import hashlib
import os
import pathlib
import shutil
import tempfile
import typing

import tensorflow_datasets as tfds

from pnjax.data import _archives
from pnjax.data import _textures

DATASETS = ("flower102", "mit67", "fmd", "food101", "folder", "textures")

_VERSION = "1.0.0"


def prepare(
  name: str,
  source: str | os.PathLike | None = None,
  data_dir: str | os.PathLike | None = None,
) -> pathlib.Path:
  """Writes a dataset."""
  check_name(name)
  folder = prepared_folder(name, data_dir)
  root = folder.parents[2]
  root.mkdir(parents=True, exist_ok=True)
  archive = (
    None if name == "textures" else getattr(_archives, name)(pathlib.Path(source))
  )
  with tempfile.TemporaryDirectory(dir=root, prefix=".incomplete-") as temporary:
    builder = Builder(archive, name, temporary)
    builder.download_and_prepare()
    folder.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(builder.data_path, folder)
  return folder


def prepared_folder(name, data_dir):
  root = pathlib.Path(data_dir or tfds.core.constants.DATA_DIR).expanduser()
  return root / "pnjax" / name / _VERSION


def check_name(name):
  if name not in DATASETS:
    raise ValueError(f"`name` is {name!r}, expected one of {', '.join(DATASETS)}.")


class Builder(tfds.core.GeneratorBasedBuilder):
  name = "pnjax"
  VERSION = tfds.core.Version(_VERSION)
  BUILDER_CONFIGS: typing.ClassVar = [tfds.core.BuilderConfig(name=n) for n in DATASETS]
  # Keeps TFDS from a search for checksums of downloads, of which there are none; it
  # would import a module that it does not depend on.
  code_path = None

  def __init__(self, archive, config_name, data_dir):
    self._archive = archive
    super().__init__(
      data_dir=data_dir,
      config=config_name,
      file_format="array_record",
    )

  def _info(self):
    names = self._archive.class_names if self._archive else _textures.CLASS_NAMES
    return tfds.core.DatasetInfo(
      builder=self,
      features=tfds.features.FeaturesDict(
        {
          "image": tfds.features.Image(shape=(None, None, None)),
          "label": tfds.features.ClassLabel(names=list(names)),
          "file": tfds.features.Text(),
        }
      ),
      metadata=tfds.core.MetadataDict(),
      disable_shuffling=True,
    )

  def _split_generators(self, dl_manager):
    m = self.info.metadata
    m.update(stored=[], splits={}, labels=[], digests=[])
    if self._archive is None:
      stored = {k: range(n) for k, n in _textures.SIZES.items()}
    else:
      stored = self._archive.stored
    start = 0
    for k, v in stored.items():
      m["stored"].append(k)
      m["splits"][k] = list(range(start, start + len(v)))
      start += len(v)
    if self._archive:
      m["splits"] |= self._archive.lists
    return {k: self._generate_examples(k, v) for k, v in stored.items()}

  def _generate_examples(self, split, items):
    for i, item in enumerate(items):
      if self._archive is None:
        image, label = _textures.texture(split, i)
        file = f"{split}/{i:04}.png"
      else:
        image, label, file = item.path.read_bytes(), item.label, item.file
      self.info.metadata["labels"].append(label)
      self.info.metadata["digests"].append(hashlib.sha256(image).hexdigest())
      yield i, {"image": image, "label": label, "file": file}
