"""Synthetic images for demonstrations and tests: `textures`.

An image is a grid of 8 × 8 cells of 8 × 8 pixels. Some cells hold one of four patterns
(horizontal stripes, vertical stripes, checks, dots) in one of four colours, the others
grey noise. A class is defined by

- which patterns and colours occur together: a pairing gives each pattern one colour,
  and the four pairings have no pair in common;
- where they occur: in half of the classes, horizontal stripes and checks are in the
  upper half of the image and the other patterns in the lower half; in the other
  classes it is the reverse.

How often a pair occurs is noise: at least once, in bursts (a heavy-tailed count with
the same distribution in all classes). Each image also has bursts of two pairs that
belong to other classes.

So each pattern and each colour occurs in every class, equally often on average: the
mean of features that see patterns and colours separately carries no information. Their
co-occurrences reveal the pairing, but bursts drown it out; a Power Normalization, which
detects whether a pair occurs at all, restores it. The location is visible only in
co-occurrences with spatial coordinates: without them, two classes remain for each
image. (A trained network can learn a filter for a pair, and something about locations
from the border of the image, so the mean of learned features reveals more.)

All patterns are symmetric, so flipping an image does not change its class. Cropping it
does: train with `augment="flip"`.
"""

import dataclasses
import functools
import io

import numpy as np
from PIL import Image

from pnjax.data._archive import Archive

# Raise it when the images change, so that old ones are not mistaken for new ones.
VERSION = "1.1.0"

SIZES = {"train": 1024, "test": 512}

_CELL = 8
_GRID = 8
_COLOURS = np.array(
  [[208, 64, 64], [48, 168, 64], [64, 96, 216], [200, 168, 32]], np.float32
)
_GROUND = 128.0
# Standard deviations of the colour of a cell and of each pixel.
_COLOUR_NOISE = 24.0
_PIXEL_NOISE = 12.0

_NUM_PAIRS = len(_COLOURS)
_NUM_WRONG = 2
# Exponent of Zipf's law, which the counts follow. At most four bursts share the 32
# cells of one half.
_TAIL = 1.5
_MAX_COUNT = 8

CLASS_NAMES = tuple(
  f"pairing_{pairing}_{where}"
  for where in ("lying_above", "lying_below")
  for pairing in range(_NUM_PAIRS)
)


def archive() -> Archive:
  """Return all images, each drawn when it is first read."""
  stored = {
    split: [Texture(split, index) for index in range(size)]
    for split, size in SIZES.items()
  }
  return Archive(CLASS_NAMES, stored)


@dataclasses.dataclass(frozen=True)
class Texture:
  """An image that is determined by its split and index."""

  split: str
  index: int

  def __str__(self) -> str:
    return self.file

  @property
  def label(self) -> int:
    """Index of the class; all classes are equally frequent."""
    return self.index % len(CLASS_NAMES)

  @property
  def file(self) -> str:
    """Path that the image would have in an archive."""
    return f"{self.split}/{self.index:04}.jpg"

  def read(self) -> bytes:
    """Return the image as JPEG."""
    return self._encoded

  # Read twice: once to check the image, once to store it.
  @functools.cached_property
  def _encoded(self) -> bytes:
    rng = np.random.default_rng([list(SIZES).index(self.split), self.index])
    file = io.BytesIO()
    image = Image.fromarray(_draw(_cells(self.label, rng), rng))
    image.save(file, "JPEG", quality=95, subsampling=0)
    return file.getvalue()


def _cells(label: int, rng: np.random.Generator) -> np.ndarray:
  """Return pattern and colour of each cell, `[64, 2]`, or -1 for none."""
  reverse, pairing = divmod(label, _NUM_PAIRS)
  cells = np.full((_GRID * _GRID, 2), -1)
  halves = [list(h) for h in rng.permuted(np.arange(_GRID**2).reshape(2, -1), axis=1)]

  def put(pattern, pairing, count):
    half = halves[(pattern + reverse) % 2]
    for _ in range(count):
      cells[half.pop()] = pattern, (pattern + pairing) % _NUM_PAIRS

  for pattern in range(_NUM_PAIRS):
    put(pattern, pairing, _burst(rng))
  for _ in range(_NUM_WRONG):
    wrong = pairing + rng.integers(1, _NUM_PAIRS)
    put(rng.integers(_NUM_PAIRS), wrong, _burst(rng))
  return cells


def _burst(rng: np.random.Generator) -> int:
  return min(int(rng.zipf(_TAIL)), _MAX_COUNT)


def _draw(cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
  """Return the pixels, uint8 `[64, 64, 3]`."""
  pattern, colour = cells.T
  phase = rng.integers(4, size=(2, len(cells), 1, 1))
  y, x = np.indices((_CELL, _CELL))[:, None] + phase
  lying, upright = y % 4 < 2, x % 4 < 2
  # The last mask is for cells without a pattern.
  masks = [lying, upright, lying ^ upright, lying & upright, np.ones_like(lying)]
  mask = np.choose(pattern[:, None, None] % len(masks), masks)[..., None]
  grey = _GROUND + rng.normal(0, _COLOUR_NOISE, (len(cells), 1))
  paint = _COLOURS[colour] + rng.normal(0, _COLOUR_NOISE, (len(cells), 3))
  paint = np.where(colour[:, None] < 0, grey, paint)
  pixels = np.where(mask, paint[:, None, None], _GROUND / 2)
  pixels = pixels.reshape(_GRID, _GRID, _CELL, _CELL, 3).transpose(0, 2, 1, 3, 4)
  pixels = pixels.reshape(_GRID * _CELL, _GRID * _CELL, 3)
  pixels = pixels + rng.normal(0, _PIXEL_NOISE, pixels.shape)
  return np.clip(pixels, 0, 255).astype(np.uint8)
