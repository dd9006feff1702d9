"""Pictures of any size into those that a network takes."""

import math

import numpy as np
from PIL import Image

# Share of the area, and range of aspect ratios, that a random crop keeps.
_AREA = (0.25, 1.0)
_ASPECT = (3 / 4, 4 / 3)


def squash(image: np.ndarray, size: int) -> np.ndarray:
  """Resizes to a square whatever the aspect."""
  return _resize(image, size, size)


def center(image: np.ndarray, size: int) -> np.ndarray:
  """Resizes the shorter side and cuts the centre out."""
  image = _resize_shorter(image, size)
  top, left = (image.shape[0] - size) // 2, (image.shape[1] - size) // 2
  return image[top : top + size, left : left + size]


def random_crop(image: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
  """Resizes a random part of the picture to a square."""
  height, width = image.shape[:2]
  area = height * width * rng.uniform(*_AREA)
  aspect = math.exp(rng.uniform(*np.log(_ASPECT)))
  h = min(height, max(1, round(math.sqrt(area / aspect))))
  w = min(width, max(1, round(math.sqrt(area * aspect))))
  top, left = rng.integers(height - h + 1), rng.integers(width - w + 1)
  return _resize(image[top : top + h, left : left + w], size, size)


def random_flip(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
  """Mirrors every other picture."""
  return image[:, ::-1] if rng.random() < 0.5 else image


def twelve_crops(image: np.ndarray, size: int, side: int) -> np.ndarray:
  """Corners, centre, the whole picture, then their mirror images: `[12, S, S, 3]`."""
  whole = squash(image, size)
  image = _resize_shorter(image, side)
  bottom, right = image.shape[0] - size, image.shape[1] - size
  corners = [(0, 0), (0, right), (bottom, 0), (bottom, right)]
  places = [*corners, (bottom // 2, right // 2)]
  crops = np.stack([*(image[y : y + size, x : x + size] for y, x in places), whole])
  return np.concatenate([crops, crops[:, :, ::-1]])


def _resize_shorter(image: np.ndarray, side: int) -> np.ndarray:
  height, width = image.shape[:2]
  scale = side / min(height, width)
  return _resize(image, round(height * scale), round(width * scale))


def _resize(image: np.ndarray, height: int, width: int) -> np.ndarray:
  if image.shape[:2] == (height, width):
    return image
  resized = Image.fromarray(np.ascontiguousarray(image)).resize((width, height), 2)
  return np.asarray(resized)
