"""Encoded pictures into the RGB that a person sees."""

import io
import os
import pathlib

import numpy as np
from PIL import Image
from PIL import ImageOps


def decode(picture: bytes | str | os.PathLike) -> np.ndarray:
  """Returns a picture as uint8 RGB, `[H, W, 3]`."""
  if not isinstance(picture, bytes):
    picture = pathlib.Path(picture).read_bytes()
  with Image.open(io.BytesIO(picture)) as image:
    return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
