"""Preparation of archives as datasets that TFDS reads."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import logging
import os
import pathlib
from typing import Any

import tensorflow_datasets as tfds

from pnjax import runtime
from pnjax.data import _builder
from pnjax.data import _checks
from pnjax.data import _class_folders
from pnjax.data import _label_file
from pnjax.data import _layouts
from pnjax.data import _stored
from pnjax.data import _textures
from pnjax.data._archive import Archive
from pnjax.data._builder import DATASETS

_READERS: dict[str, Callable[..., Archive]] = {
  "flower102": _layouts.read_flower102,
  "mit67": _layouts.read_mit67,
  "fmd": _layouts.read_fmd,
  "food101": _layouts.read_food101,
  "folder": _class_folders.read_folder,
}
_LOGGER = logging.getLogger(__name__)
# Number of splits that a summary names.
_MAX_SHOWN = 4


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
  the same and all its records are intact.

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
    OSError: if images cannot be read, or the dataset cannot be written.
    ValueError: if images are broken; the message lists them all.
    FileExistsError: if the dataset exists, with other images or splits.
  """
  archive = _read_archive(name, source, splits)
  _checks.check_names(archive)
  folder = prepared_folder(name, data_dir)
  with _only_writer(folder.parent):
    before = _metadata_before(folder)
    known = frozenset(before.get("digests", ()))
    advice = _advice_if_broken(name, source)
    metadata = _metadata(archive, _checks.digests(archive, known, progress, advice))
    _checks.warn_about_small_classes(archive)
    _checks.warn_about_missing_splits(metadata["splits"])
    _checks.warn_about_duplicates(
      archive, metadata["digests"], metadata["splits"], _root_of(source)
    )
    if _contents(before) == _contents(metadata):
      if _is_whole(name, folder, progress):
        _LOGGER.info("%s is already prepared from the same images.", name)
        _LOGGER.info("%s", _summary(metadata))
        return folder
    elif before and not overwrite:
      raise FileExistsError(
        f"{folder} was prepared from other images or splits ({len(before['digests'])} "
        f"images there, {len(metadata['digests'])} in {source}); replace it with "
        "overwrite=True (--overwrite), or choose another folder of datasets by "
        "data_dir (--data_dir) or $TFDS_DATA_DIR."
      )
    _builder.write(name, archive, metadata, folder, progress)
  _LOGGER.info("%s", _summary(metadata))
  return folder


def prepared_folder(name: str, data_dir: str | os.PathLike | None) -> pathlib.Path:
  """Return the folder of a dataset, prepared or not."""
  return data_root(data_dir) / _builder.Builder.name / name / _builder.VERSIONS[name]


def data_root(data_dir: str | os.PathLike | None) -> pathlib.Path:
  """Return TFDS's folder of datasets."""
  return pathlib.Path(data_dir or tfds.core.constants.DATA_DIR).expanduser()


def check_name(name: str) -> None:
  """Raise an error if no dataset has this name."""
  if name not in DATASETS:
    raise ValueError(f"`name` is {name!r}, expected one of {', '.join(DATASETS)}.")


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


def _advice_if_broken(name: str, source: str | os.PathLike | None) -> str:
  """Return what to do about images that are broken."""
  if name != "folder":
    return "get them again, or remove those that no list names"
  if source is not None and os.path.isfile(source):
    return "replace them, or delete them and their lines in the CSV file"
  return "replace or delete them"


def _root_of(source: str | os.PathLike | None) -> pathlib.Path | None:
  """Return the folder that paths of images are relative to, if there is one."""
  if source is None:
    return None
  return pathlib.Path(source if os.path.isdir(source) else os.path.dirname(source))


def _summary(metadata: Mapping[str, Any]) -> str:
  """Return a line such as `60 images in 5 classes: train 50, test 10`."""
  splits = [f"{name} {len(own)}" for name, own in metadata["splits"].items()]
  more = len(splits) - _MAX_SHOWN
  if more > 0:
    rest = runtime.counted(more, "more split")
    splits = [*splits[:_MAX_SHOWN], f"… and {rest}"]
  return (
    f"{runtime.counted(len(metadata['labels']), 'image')} in "
    f"{runtime.counted(len(metadata['class_names']), 'class', 'classes')}: "
    f"{', '.join(splits)}"
  )


@contextlib.contextmanager
def _only_writer(folder: pathlib.Path) -> Iterator[None]:
  """Waits until no other process prepares the dataset of a folder."""
  try:
    folder.mkdir(parents=True, exist_ok=True)
  except OSError as error:
    raise OSError(
      f"{folder} cannot be made ({error.strerror}); choose another folder of datasets "
      "by $TFDS_DATA_DIR, --data_dir (prepare) or --config.dataset.data_dir (others)."
    ) from error
  if not os.access(folder, os.W_OK):
    yield  # It may be prepared already, and be found whole.
    return
  with runtime.lock_folder(folder, wait=True):
    yield


def _metadata_before(folder: pathlib.Path) -> dict[str, Any]:
  """Return the metadata of a dataset, empty if there are none or they are damaged."""
  if not folder.exists():
    return {}
  try:
    return _stored.read_metadata(folder)
  except (FileNotFoundError, ValueError) as error:
    _warn_about_damage(folder, error)
    return {}


def _is_whole(name: str, folder: pathlib.Path, progress: bool) -> bool:
  """Return whether all files of a dataset are as they were written."""
  try:
    _stored.check_records(name, folder, progress)
  except OSError as error:
    _warn_about_damage(folder, error.__cause__ or error)
    return False
  return True


def _warn_about_damage(folder: pathlib.Path, error: BaseException) -> None:
  _LOGGER.warning("%s is damaged (%s), so it is prepared again.", folder, error)


def _metadata(archive: Archive, digests: Sequence[str]) -> dict[str, Any]:
  """Return a description of an archive that JSON can represent."""
  ranges, start = {}, 0
  for split, group in archive.stored.items():
    ranges[split] = list(range(start, start + len(group)))
    start += len(group)
  images = archive.images
  return {
    "stored": list(archive.stored),
    "splits": dict(archive.lists) or ranges,
    "labels": [image.label for image in images],
    "digests": list(digests),
    "class_names": list(archive.class_names),
    "names": _stored.names_digest(archive.class_names, [i.file for i in images]),
  }


def _contents(metadata: Mapping[str, Any]) -> dict[str, Any]:
  """Return metadata without those that differ, or lack, in earlier versions."""
  without = ("stored", "class_names")
  return {key: value for key, value in metadata.items() if key not in without}
