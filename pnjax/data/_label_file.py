"""Images that are listed in a CSV file."""

from collections.abc import Mapping
from collections.abc import Sequence
import csv
import os
import pathlib

from pnjax import runtime
from pnjax.data import _class_folders
from pnjax.data._archive import Archive
from pnjax.data._archive import ImageFile
from pnjax.data._archive import printable

_COLUMNS = ("path", "label")
_SPLIT = "split"
# Number of mistakes that an error message names.
_MAX_SHOWN = 10


def read_label_file(source: pathlib.Path) -> Archive:
  """Read images from a CSV file with the columns `path`, `label`, and maybe `split`.

  The first line names the columns; others than these are ignored. Paths are relative
  to the folder of the file. Without splits, 80% of each class are `train` and the rest
  `test`.
  """
  rows = _read_rows(source)
  _check_rows(rows, source)
  names = sorted({row["label"] for row in rows.values()})
  images = [
    ImageFile(
      pathlib.PurePath(os.path.normpath(row["path"])).as_posix(),
      names.index(row["label"]),
      source.parent / row["path"],
    )
    for row in rows.values()
  ]
  if _SPLIT not in next(iter(rows.values())):
    return Archive(tuple(names), _class_folders.divided(images))
  chosen = [_class_folders.split_of_name(row[_SPLIT]) for row in rows.values()]
  stored = {
    split: [image for image, own in zip(images, chosen, strict=True) if own == split]
    for split in _class_folders.SPLITS
    if split in chosen
  }
  _class_folders.check_classes(
    {split: {names[i.label] for i in group} for split, group in stored.items()}
  )
  return Archive(tuple(names), stored)


def _read_rows(source: pathlib.Path) -> dict[int, dict[str, str]]:
  """Return the columns that count, by the number of their line."""
  try:
    # Spreadsheets begin their files with a byte order mark.
    with open(source, encoding="utf-8-sig", newline="") as file:
      reader = csv.DictReader(file, strict=True)
      header = [name.strip() for name in reader.fieldnames or ()]
      if any(header.count(name) != 1 for name in _COLUMNS):
        raise ValueError(
          f"the first line of {source} is {','.join(header)!r}, expected the names of "
          "the columns: path,label or path,label,split."
        )
      columns = (*_COLUMNS, _SPLIT) if _SPLIT in header else _COLUMNS
      reader.fieldnames = header
      rows = {}
      for row in reader:
        rows[reader.line_num] = {name: (row[name] or "").strip() for name in columns}
  except (csv.Error, UnicodeDecodeError) as error:
    raise ValueError(
      f"{source} cannot be read ({error}), expected CSV with commas, in UTF-8."
    ) from error
  if not rows:
    raise ValueError(f"{source} has no images, expected a line for each.")
  return rows


def _check_rows(rows: Mapping[int, Mapping[str, str]], source: pathlib.Path) -> None:
  """Raise an error that names the lines with mistakes."""
  seen: dict[str, int] = {}
  empty, again, unknown, missing = [], [], [], []
  for line, row in rows.items():
    path = os.path.normpath(row["path"])
    first = seen.setdefault(path, line)
    if not all(row.values()):
      name = next(name for name, value in row.items() if not value)
      empty.append(f"line {line} ({name})")
    elif first != line:
      again.append(f"{row['path']} (lines {first} and {line})")
    elif _SPLIT in row and _class_folders.split_of_name(row[_SPLIT]) is None:
      unknown.append(f"{row[_SPLIT]!r} (line {line})")
    elif not os.path.isfile(source.parent / path):
      missing.append(f"{row['path']} (line {line})")
  splits = ", ".join(_class_folders.SPLITS)
  for mistakes, words, expected in (
    (empty, ("line without a value", "lines without a value"), "one in each column"),
    (
      again,
      ("image that is listed again", "images that are listed again"),
      "each once",
    ),
    (unknown, ("unknown split", "unknown splits"), splits),
    (
      missing,
      ("image that is not there", "images that are not there"),
      f"paths relative to {source.parent}",
    ),
  ):
    if mistakes:
      raise ValueError(
        f"{source} has {runtime.counted(len(mistakes), *words)}, expected {expected}: "
        f"{_shown(mistakes)}."
      )


def _shown(mistakes: Sequence[str]) -> str:
  shown = [*mistakes[:_MAX_SHOWN], *["…"][: len(mistakes) > _MAX_SHOWN]]
  return printable(", ".join(shown))
