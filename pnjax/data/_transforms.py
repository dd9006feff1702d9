"""Crops of images, resized to the input size of a network."""

import math

import cv2
import numpy as np

# Ranges of the relative area and of the aspect ratio of a random crop.
_AREA = (0.25, 1.0)
_ASPECT = (3 / 4, 4 / 3)
# Where a side shrinks by more than this, interpolation skips pixels, which causes
# aliasing; area averaging does not, but is slower.
_MAX_INTERPOLATED_SHRINKING = 1.5


def squash(image: np.ndarray, size: int) -> np.ndarray:
  """Resizes an image to a square, ignoring its aspect ratio."""
  return _resize(image, size, size)


def center(image: np.ndarray, size: int) -> np.ndarray:
  """Crops the largest central square and resizes it."""
  height, width = image.shape[:2]
  side = min(height, width)
  return _cut(image, (height - side) // 2, (width - side) // 2, side, side, size)


def random_part(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
  """Crops a random part of an image."""
  height, width = image.shape[:2]
  area = height * width * rng.uniform(*_AREA)
  aspect = math.exp(rng.uniform(*np.log(_ASPECT)))
  h = min(height, max(1, round(math.sqrt(area / aspect))))
  w = min(width, max(1, round(math.sqrt(area * aspect))))
  top, left = rng.integers(height - h + 1), rng.integers(width - w + 1)
  return image[top : top + h, left : left + w]


def random_flip(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
  """Mirrors an image with probability ½."""
  return cv2.flip(image, 1) if rng.random() < 0.5 else image


def twelve_crops(image: np.ndarray, size: int, resize_side: int) -> np.ndarray:
  """Return four corners, the centre and the whole image, then their mirror images.

  Args:
    image: Image to crop.
    size: Side S of the crops, in pixels.
    resize_side: Shorter side of the resized image that corners and centre are cut
      from. The whole image is squashed.

  Returns:
    Crops, `[12, S, S, 3]`.
  """
  height, width = image.shape[:2]
  # Resizes each crop instead of the image, since a narrow image could become huge.
  cut = max(1, round(min(height, width) * size / resize_side))
  bottom, right = height - cut, width - cut
  corners = [(0, 0), (0, right), (bottom, 0), (bottom, right)]
  places = [*corners, (bottom // 2, right // 2)]
  crops = [_cut(image, top, left, cut, cut, size) for top, left in places]
  crops.append(squash(image, size))
  return np.stack([*crops, *(cv2.flip(crop, 1) for crop in crops)])


def _cut(
  image: np.ndarray, top: int, left: int, height: int, width: int, size: int
) -> np.ndarray:
  """Resizes a part of an image to a square."""
  return _resize(image[top : top + height, left : left + width], size, size)


def _resize(image: np.ndarray, height: int, width: int) -> np.ndarray:
  h, w = image.shape[:2]
  if max(h / height, w / width) > _MAX_INTERPOLATED_SHRINKING:
    smaller = min(w, width), min(h, height)
    image = cv2.resize(image, smaller, interpolation=cv2.INTER_AREA)
  if image.shape[:2] == (height, width):
    return image
  return cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR)
