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
every picture has a burst of a pair that belongs to another one.

So every pattern and every colour occurs in every class, equally often on average:
the average of features that see pattern and colour apart knows nothing. Their
co-occurrences tell the pairing, but bursts drown it; a Power Normalization, which
asks whether a pair occurs at all, brings it back. Neither tells where, which only
co-occurrences with spatial coordinates do: without them one half of the pictures is
guessed at best. (A network that learns its features can learn a filter for a pair,
and something about places from the margin of the picture, so averages of learned
features are better than chance.)

All patterns are their own mirror images, and classes stay what they are if a picture
is flipped. They do not if it is cropped: train with `augment="resize"`.
"""

import io

import numpy as np
from PIL import Image

SIZES = {"train": 1024, "test": 512}

_CELL = 8
_GRID = 8
_COLOURS = np.array(
  [[208, 64, 64], [48, 168, 64], [64, 96, 216], [200, 168, 32]], np.float32
)
_NUM_PAIRS = len(_COLOURS)
_MAX_COUNT = 7
_DISTRACTOR = 6

CLASS_NAMES = tuple(
  f"pairing_{pairing}_{where}"
  for where in ("upright", "reversed")
  for pairing in range(_NUM_PAIRS)
)


def texture(split: str, index: int) -> tuple[bytes, int]:
  """Returns a picture as PNG, and its label, which depend on the arguments alone."""
  rng = np.random.default_rng([list(SIZES).index(split), index])
  label = index % len(CLASS_NAMES)
  pixels = _draw(_cells(label, rng), rng)
  file = io.BytesIO()
  Image.fromarray(pixels).save(file, "PNG")
  return file.getvalue(), label


def _cells(label: int, rng: np.random.Generator) -> np.ndarray:
  """Pattern and colour of every cell, `[8, 8, 2]`; -1 where there is none."""
  reverse, pairing = divmod(label, _NUM_PAIRS)
  cells = np.full((_GRID * _GRID, 2), -1)
  halves = rng.permuted(np.arange(_GRID * _GRID).reshape(2, -1), axis=1)
  used = [0, 0]

  def put(pattern, colour, half, count):
    where = halves[half, used[half] : used[half] + count]
    cells[where] = pattern, colour
    used[half] += count

  for pattern in range(_NUM_PAIRS):
    colour = (pattern + pairing) % _NUM_PAIRS
    put(pattern, colour, (pattern + reverse) % 2, _burst(rng))
  wrong = (pairing + rng.integers(1, _NUM_PAIRS)) % _NUM_PAIRS
  pattern = rng.integers(_NUM_PAIRS)
  put(pattern, (pattern + wrong) % _NUM_PAIRS, (pattern + reverse) % 2, _DISTRACTOR)
  return cells.reshape(_GRID, _GRID, 2)


def _burst(rng: np.random.Generator) -> int:
  return min(int(rng.zipf(1.6)), _MAX_COUNT)


def _draw(cells: np.ndarray, rng: np.random.Generator) -> np.ndarray:
  side = _CELL * _GRID
  pixels = rng.normal(128, 24, (side, side, 1)).repeat(3, axis=2)
  for y, x in np.argwhere(cells[..., 0] >= 0):
    pattern, colour = cells[y, x]
    mask = _pattern(pattern, rng)[..., None]
    part = np.s_[y * _CELL : (y + 1) * _CELL, x * _CELL : (x + 1) * _CELL]
    paint = _COLOURS[colour] + rng.normal(0, 24, 3)
    pixels[part] = np.where(mask, paint, 64) + rng.normal(0, 12, (_CELL, _CELL, 3))
  return np.clip(pixels, 0, 255).astype(np.uint8)


def _pattern(pattern: int, rng: np.random.Generator) -> np.ndarray:
  """Returns where the pattern is painted, `[8, 8]`, in a random phase."""
  y, x = np.indices((_CELL, _CELL)) + rng.integers(4, size=(2, 1, 1))
  lying, upright = y % 4 < 2, x % 4 < 2
  return (lying, upright, lying ^ upright, lying & upright)[pattern]
