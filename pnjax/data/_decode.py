"""Encoded pictures into the RGB that a person sees."""

import io
import os
import pathlib

import cv2
import numpy as np
from PIL import ExifTags
from PIL import Image
from PIL import ImageOps
from PIL import UnidentifiedImageError

# Beyond this a small file may be made to fill the memory. Pillow warns from here on.
MAX_PIXELS = Image.MAX_IMAGE_PIXELS

_SUFFIXES = (
  ".jpg",
  ".jpeg",
  ".jfif",
  ".png",
  ".gif",
  ".bmp",
  ".webp",
  ".avif",
  ".tif",
  ".tiff",
  ".ppm",
)
_DEEP_MODES = ("I", "I;16", "I;16B", "I;16L", "I;16N")


def decode(picture: bytes | str | os.PathLike) -> np.ndarray:
  """Returns a picture as uint8 RGB, `[H, W, 3]`, upright and as a person sees it.

  Greyscale, palettes, CMYK and 16 bits become RGB of 8 bits; what is transparent
  shows white; the first picture of an animation is taken.

  Args:
    picture: its bytes, in any format that Pillow reads, or its path.

  Raises:
    ValueError: if it is broken, cut off, or has more than 89 million pixels.
  """
  name = "the picture" if isinstance(picture, bytes) else os.fspath(picture)
  if not isinstance(picture, bytes):
    picture = pathlib.Path(picture).read_bytes()
  try:
    with Image.open(io.BytesIO(picture)) as image:
      _check_size(image)
      return _as_seen(image)
  except UnidentifiedImageError as error:
    raise ValueError(
      f"{name} cannot be decoded: its format is none that Pillow knows."
    ) from error
  except Exception as error:  # Pillow lets nearly anything out of broken files.
    raise ValueError(f"{name} cannot be decoded: {error}") from error


def decode_prepared(picture: bytes) -> np.ndarray:
  """Returns the same as `decode` for a picture that is known to be whole.

  OpenCV takes a third of Pillow's time for an ordinary JPEG, but shows what there is
  of one that is cut off without a word, and other colours for CMYK.
  """
  with Image.open(io.BytesIO(picture)) as image:
    ordinary = image.format == "JPEG" and image.mode in ("RGB", "L")
    if not ordinary or _is_rotated(image):
      return decode(picture)
    _check_size(image)
  flags = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION
  return cv2.imdecode(np.frombuffer(picture, np.uint8), flags)


def _check_size(image: Image.Image) -> None:
  if image.width * image.height > MAX_PIXELS:
    raise ValueError(
      f"it has {image.width} × {image.height} pixels, expected at most {MAX_PIXELS} "
      "of them; make it smaller."
    )


def _is_rotated(image: Image.Image) -> bool:
  if "exif" not in image.info:
    return False
  return image.getexif().get(ExifTags.Base.Orientation, 1) != 1


def _as_seen(image: Image.Image) -> np.ndarray:
  image = ImageOps.exif_transpose(image)
  if image.mode in _DEEP_MODES:
    grey = np.clip(np.asarray(image, np.int64) // 256, 0, 255).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=2)
  if image.has_transparency_data:
    white = Image.new("RGBA", image.size, "white")
    image = Image.alpha_composite(white, image.convert("RGBA"))
  return np.asarray(image.convert("RGB"))


def picture_files(folder: str | os.PathLike) -> list[pathlib.Path]:
  """Returns the pictures in a folder and below it, sorted, without hidden ones."""
  folder = pathlib.Path(folder)
  return [
    path
    for path in sorted(folder.rglob("*"))
    if is_picture(path) and not _is_hidden(path.relative_to(folder))
  ]


def is_picture(path: pathlib.Path) -> bool:
  """Returns whether a file is a picture by its name, and not hidden."""
  return path.suffix.lower() in _SUFFIXES and not _is_hidden(pathlib.Path(path.name))


def _is_hidden(path: pathlib.Path) -> bool:
  return any(part.startswith(".") for part in path.parts)
