"""Pictures of any size into those that a network takes."""

import math

import cv2
import numpy as np

# Share of the area, and range of aspect ratios, that a random crop keeps.
_AREA = (0.25, 1.0)
_ASPECT = (3 / 4, 4 / 3)
# Interpolation leaves pixels out where a side shrinks more than this, which makes
# false patterns; averages do not, but take longer.
_MAX_INTERPOLATED_SHRINKING = 1.5


def squash(image: np.ndarray, size: int) -> np.ndarray:
  """Resizes to a square whatever the aspect."""
  return _resize(image, size, size)


def center(image: np.ndarray, size: int) -> np.ndarray:
  """Cuts the largest square out of the centre and resizes it."""
  height, width = image.shape[:2]
  side = min(height, width)
  return _cut(image, (height - side) // 2, (width - side) // 2, side, side, size)


def random_crop(image: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
  """Resizes a random part of the picture to a square."""
  height, width = image.shape[:2]
  area = height * width * rng.uniform(*_AREA)
  aspect = math.exp(rng.uniform(*np.log(_ASPECT)))
  h = min(height, max(1, round(math.sqrt(area / aspect))))
  w = min(width, max(1, round(math.sqrt(area * aspect))))
  top, left = rng.integers(height - h + 1), rng.integers(width - w + 1)
  return _cut(image, top, left, h, w, size)


def random_flip(image: np.ndarray, rng: np.random.Generator) -> np.ndarray:
  """Mirrors every other picture."""
  return cv2.flip(image, 1) if rng.random() < 0.5 else image


def twelve_crops(image: np.ndarray, size: int, side: int) -> np.ndarray:
  """Returns four corners, the centre, the whole, and their mirror images.

  Args:
    image: the picture.
    size: side S of the crops.
    side: what the shorter side of the picture would be if corners and centre were
      cut from it with S pixels a side; the whole picture is squashed.

  Returns:
    `[12, S, S, 3]`.
  """
  height, width = image.shape[:2]
  # The picture itself is not resized: a narrow one could become very long.
  cut = max(1, round(min(height, width) * size / side))
  bottom, right = height - cut, width - cut
  corners = [(0, 0), (0, right), (bottom, 0), (bottom, right)]
  places = [*corners, (bottom // 2, right // 2)]
  crops = [_cut(image, top, left, cut, cut, size) for top, left in places]
  crops.append(squash(image, size))
  return np.stack([*crops, *(cv2.flip(crop, 1) for crop in crops)])


def _cut(
  image: np.ndarray, top: int, left: int, height: int, width: int, size: int
) -> np.ndarray:
  """Resizes a part of the picture to a square."""
  return _resize(image[top : top + height, left : left + width], size, size)


def _resize(image: np.ndarray, height: int, width: int) -> np.ndarray:
  h, w = image.shape[:2]
  if max(h / height, w / width) > _MAX_INTERPOLATED_SHRINKING:
    smaller = min(w, width), min(h, height)
    image = cv2.resize(image, smaller, interpolation=cv2.INTER_AREA)
  if image.shape[:2] == (height, width):
    return image
  return cv2.resize(image, (width, height), interpolation=cv2.INTER_LINEAR)
