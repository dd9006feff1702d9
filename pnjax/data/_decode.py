"""Decoding of images to the RGB that a viewer shows."""

import io
import os
import pathlib
import sys
import warnings

import cv2
import numpy as np
from PIL import ExifTags
from PIL import Image
from PIL import ImageOps
from PIL import UnidentifiedImageError

from pnjax.data._archive import read_file

# A small file may claim more pixels than fit into memory. Pillow warns above this.
MAX_PIXELS = Image.MAX_IMAGE_PIXELS or sys.maxsize
# A progressive JPEG of a few kilobytes may go over all its pixels thousands of times.
# Pillow goes over a billion per second.
MAX_SCANNED_PIXELS = 10_000_000_000

Image.init()
# A file of another format, whatever its suffix, may start a program: EPS does.
_FORMATS = tuple(
  name
  for name in ("JPEG", "PNG", "GIF", "BMP", "WEBP", "AVIF", "TIFF", "PPM")
  if name in Image.OPEN
)
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


def decode(image: bytes | str | os.PathLike) -> np.ndarray:
  """Decode an image to uint8 RGB, `[H, W, 3]`, upright, as a viewer shows it.

  Greyscale, palette, CMYK and 16-bit images become 8-bit RGB. Transparent pixels blend
  into white. Of an animation, the first frame is decoded.

  Args:
    image: Path of the image, or its contents: JPEG, PNG, GIF, BMP, WebP, AVIF, TIFF or
      PPM.

  Raises:
    OSError: if there is no such file.
    ValueError: if the image is broken, truncated, or has more than 89 million pixels.
  """
  name = "the image" if isinstance(image, bytes) else os.fspath(image)
  content = image if isinstance(image, bytes) else read_file(pathlib.Path(image))
  try:
    with Image.open(io.BytesIO(content), formats=_FORMATS) as opened:
      _check_effort(opened, content)
      return _to_rgb(opened)
  except UnidentifiedImageError as error:
    raise ValueError(
      f"{name} cannot be decoded: it is none of {', '.join(_FORMATS)}."
    ) from error
  except Exception as error:  # Broken files make Pillow raise almost anything.
    reason = str(error) or type(error).__name__
    raise ValueError(f"{name} cannot be decoded: {reason}") from error


def decode_prepared(content: bytes) -> np.ndarray:
  """Decode an image that is known to be intact, faster than `decode`.

  OpenCV decodes a common JPEG in a third of Pillow's time, but it accepts truncated
  files silently, and gets the colours of CMYK wrong.
  """
  try:
    pixels = _decode_common(content)
  except Exception:  # Below, it is said what is wrong.
    pixels = None
  return decode(content) if pixels is None else pixels


def _decode_common(content: bytes) -> np.ndarray | None:
  """Return a common JPEG as RGB, None for other images."""
  with Image.open(io.BytesIO(content), formats=_FORMATS) as opened:
    is_common = opened.format == "JPEG" and opened.mode in ("RGB", "L")
    if not is_common or _is_rotated(opened):
      return None
    _check_effort(opened, content)
  flags = cv2.IMREAD_COLOR_RGB | cv2.IMREAD_IGNORE_ORIENTATION
  return cv2.imdecode(np.frombuffer(content, np.uint8), flags)


def _check_effort(image: Image.Image, content: bytes) -> None:
  """Raise ValueError for images that need too much memory or time."""
  num_pixels = image.width * image.height
  if num_pixels > MAX_PIXELS:
    raise ValueError(
      f"it has {image.width} × {image.height} pixels, expected at most {MAX_PIXELS} "
      "in total; make it smaller."
    )
  num_scans = content.count(b"\xff\xda") if image.format in ("JPEG", "MPO") else 1
  if num_scans * num_pixels > MAX_SCANNED_PIXELS:
    raise ValueError(
      f"it has {num_scans} scans of {num_pixels} pixels, expected at most "
      f"{MAX_SCANNED_PIXELS} in total; save it again."
    )


def ignore_warnings() -> None:
  """Silence Pillow about metadata, which are not used, and about sizes checked here."""
  warnings.filterwarnings("ignore", category=UserWarning, module=r"PIL\.")
  warnings.filterwarnings(
    "ignore", category=Image.DecompressionBombWarning, module=r"PIL\."
  )


ignore_warnings()


def _is_rotated(image: Image.Image) -> bool:
  if "exif" not in image.info:
    return False
  return image.getexif().get(ExifTags.Base.Orientation, 1) != 1


def _to_rgb(image: Image.Image) -> np.ndarray:
  image = ImageOps.exif_transpose(image)
  if image.mode in _DEEP_MODES:
    grey = np.clip(np.asarray(image, np.int64) // 256, 0, 255).astype(np.uint8)
    return np.repeat(grey[..., None], 3, axis=2)
  if image.has_transparency_data:
    white = Image.new("RGBA", image.size, "white")
    image = Image.alpha_composite(white, image.convert("RGBA"))
  return np.asarray(image.convert("RGB"))


def image_files(folder: str | os.PathLike) -> list[pathlib.Path]:
  """Return the paths of all images in a folder and its subfolders, sorted.

  Hidden files and folders are skipped.

  Args:
    folder: The folder.

  Raises:
    OSError: if the folder, or one in it, cannot be read.
  """
  paths = []
  # Unlike this, `rglob` passes over folders that cannot be read.
  for root, folders, files in os.walk(os.fspath(folder), onerror=_refuse):
    folders[:] = [name for name in folders if not name.startswith(".")]
    paths += [pathlib.Path(root, name) for name in (*folders, *files)]
  return sorted(filter(is_image, paths))


def _refuse(error: OSError) -> None:
  raise unreadable(error) from error


def unreadable(error: OSError) -> OSError:
  """Return the error for a folder that cannot be read, which says what to do."""
  return OSError(
    f"the folder {error.filename} cannot be read ({error.strerror}); make it readable, "
    "or remove it."
  )


def is_image(path: pathlib.Path) -> bool:
  """Return whether a file is an image, judging by its name, and not hidden."""
  return path.suffix.lower() in _SUFFIXES and not path.name.startswith(".")
