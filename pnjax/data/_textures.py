"""Pictures made by code, for demonstrations and tests: `textures`.

A picture is a grid of 8 × 8 cells of 8 pixels. Some cells hold one of four patterns
(lying stripes, upright stripes, checks, dots) in one of four colours, the others
grey noise. A class is told by

- which patterns occur together: it pairs every pattern with one colour, and the four
  pairings of the eight classes have no pair in common;
- where: in one half of the classes lying stripes and checks are in the upper half of
  the picture and the others in the lower one, in the other half it is the reverse.

How often a pair occurs is noise: at least once, and in bursts (a heavy-tailed count
that has the same distribution in all classes). Beside the pairs of its own class
every picture has bursts of two pairs that belong to others.

So every pattern and every colour occurs in every class, equally often on average:
the average of features that see pattern and colour apart knows nothing. Their
co-occurrences tell the pairing, but bursts drown it; a Power Normalization, which
asks whether a pair occurs at all, brings it back. Where it occurs is known from
co-occurrences with spatial coordinates only: without them two classes are left for
every picture. (A network that learns its features can learn a filter for a pair, and
something about places from the margin of the picture, so averages of learned features
tell more.)

All patterns are their own mirror images, and classes stay what they are if a picture
is flipped. They do not if it is cropped: train with `augment="resize"`.
"""

import dataclasses
import functools
import io

import numpy as np
from PIL import Image

from pnjax.data import _archives

# To be raised when they are drawn otherwise: those of old are not taken for new ones.
VERSION = "1.1.0"

SIZES = {"train": 1024, "test": 512}

_CELL = 8
_GRID = 8
_COLOURS = np.array(
  [[208, 64, 64], [48, 168, 64], [64, 96, 216], [200, 168, 32]], np.float32
)
_GROUND = 128.0
# Standard deviations, of the colour of a cell and of every pixel.
_COLOUR_NOISE = 24.0
_PIXEL_NOISE = 12.0

_NUM_PAIRS = len(_COLOURS)
_NUM_WRONG = 2
# Exponent of Zipf's law, which counts follow. At most four bursts share the 32 cells
# of one half.
_TAIL = 1.5
_MAX_COUNT = 8

CLASS_NAMES = tuple(
  f"pairing_{pairing}_{where}"
  for where in ("lying_above", "lying_below")
  for pairing in range(_NUM_PAIRS)
)


def archive() -> _archives.Archive:
  """Returns all pictures, which are drawn when they are read."""
  stored = {
    split: [Texture(split, index) for index in range(size)]
    for split, size in SIZES.items()
  }
  return _archives.Archive(CLASS_NAMES, stored)


@dataclasses.dataclass(frozen=True)
class Texture:
  """A picture that depends on its split and its index alone."""

  split: str
  index: int

  @property
  def label(self) -> int:
    """Number of its class; all are equally frequent."""
    return self.index % len(CLASS_NAMES)

  @property
  def file(self) -> str:
    """Name that it would have in an archive."""
    return f"{self.split}/{self.index:04}.jpg"

  def read(self) -> bytes:
    """Returns the picture as JPEG."""
    return self._encoded

  # It is read twice: to be checked, and to be stored.
  @functools.cached_property
  def _encoded(self) -> bytes:
    rng = np.random.default_rng([list(SIZES).index(self.split), self.index])
    file = io.BytesIO()
    image = Image.fromarray(_draw(_cells(self.label, rng), rng))
    image.save(file, "JPEG", quality=95, subsampling=0)
    return file.getvalue()


def _cells(label: int, rng: np.random.Generator) -> np.ndarray:
  """Pattern and colour of every cell, `[64, 2]`; -1 where there is none."""
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
  """Returns the picture, uint8 `[64, 64, 3]`."""
  pattern, colour = cells.T
  phase = rng.integers(4, size=(2, len(cells), 1, 1))
  y, x = np.indices((_CELL, _CELL))[:, None] + phase
  lying, upright = y % 4 < 2, x % 4 < 2
  # The last one is for cells without a pattern.
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
