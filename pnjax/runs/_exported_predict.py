"""Classify images with the model in this folder.

  python predict.py image.jpg ...

It needs jax, flatbuffers, numpy, pillow and safetensors. In a program, `load` returns a
function from images, as `read` returns them, to the probabilities of the classes.
"""

import functools
import hashlib
import json
import pathlib
import sys

import jax
from jax import export
import numpy as np
from PIL import Image
from PIL import ImageOps
from safetensors import numpy as safetensors_numpy

FOLDER = pathlib.Path(__file__).parent
CONFIG_FIELDS = {"class_names", "image_size", "num_crops", "resize", "sha256"}


def load(folder=FOLDER):
  """Return the config and the function from images to probabilities, `[B, C]`."""
  config = read_config(folder / "config.json")
  for name, digest in config["sha256"].items():
    path = folder / name
    if not path.is_file():
      raise ValueError(f"{path} is missing; export the model again.")
    if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
      raise ValueError(f"{path} is damaged; export the model again.")
  function = export.deserialize((folder / "function.bin").read_bytes())
  weights = jax.device_put(safetensors_numpy.load_file(folder / "weights.safetensors"))
  return config, functools.partial(jax.jit(function.call), weights)


def read_config(path):
  """Return the config."""
  try:
    config = json.loads(path.read_text(encoding="utf-8"))
    complete = CONFIG_FIELDS <= config.keys()
  except (AttributeError, FileNotFoundError, ValueError):
    complete = False
  if not complete:
    raise ValueError(f"{path} is missing or damaged; export the model again.")
  return config


def read(path, config):
  """Return an image of a file as the function takes it, uint8."""
  image = ImageOps.exif_transpose(Image.open(path))
  if image.mode.startswith("I"):  # Grey levels of 16 bits, which Pillow would clip.
    grey = np.clip(np.asarray(image, np.int64) // 256, 0, 255)
    image = Image.fromarray(grey.astype(np.uint8))
  if image.has_transparency_data:
    white = Image.new("RGBA", image.size, "white")
    image = Image.alpha_composite(white, image.convert("RGBA"))
  return prepare(np.asarray(image.convert("RGB")), config)


def prepare(image, config):
  """Return a uint8 image `[H, W, 3]` as `[S, S, 3]`, or `[12, S, S, 3]` for crops."""
  (height, width), size = image.shape[:2], config["image_size"]
  if config["num_crops"] == 12:
    side = max(1, round(min(height, width) * size / config["resize_side"]))
    bottom, right = height - side, width - side
    tops, lefts = (0, 0, bottom, bottom, bottom // 2), (0, right, 0, right, right // 2)
    places = zip(tops, lefts, strict=True)
    crops = [image[y : y + side, x : x + side] for y, x in places]
    crops = [resize(crop, size) for crop in [*crops, image]]
    return np.stack([*crops, *(crop[:, ::-1] for crop in crops)])
  if config["resize"] == "center":
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    image = image[top : top + side, left : left + side]
  return resize(image, size)


def resize(image, size):
  """Return an image as a square: means of areas if it is large, else interpolated."""
  height, width = image.shape[:2]
  by_area = max(height, width) > 1.5 * size
  rows, columns = _weights(height, size, by_area), _weights(width, size, by_area)
  x = np.tensordot(rows, image.astype(np.float32), 1)
  return np.rint(np.matmul(columns, x)).astype(np.uint8)


def _weights(count, size, by_area):
  """Return the matrix `[size, count]` that resizes rows or columns."""
  pixel, new, scale = np.arange(count), np.arange(size)[:, None], count / size
  if by_area and scale > 1:
    ends = np.minimum(pixel + 1, scale * (new + 1)), np.maximum(pixel, scale * new)
    return (np.clip(ends[0] - ends[1], 0, None) / scale).astype(np.float32)
  center = np.clip(scale * (new + 0.5) - 0.5, 0, count - 1)
  return np.clip(1 - abs(pixel - center), 0, None).astype(np.float32)


def main():
  """Print the five most probable classes of each image."""
  paths = sys.argv[1:]
  if "-h" in paths or "--help" in paths:
    print(__doc__)
    return
  if not paths:
    sys.exit("error: no image was given: python predict.py image.jpg ...")
  try:
    config, predict = load()
  except (OSError, ValueError) as error:
    sys.exit(f"error: {error}")
  failed = False
  for path in paths:
    try:
      image = read(path, config)
    except (OSError, ValueError, Image.DecompressionBombError) as error:
      reason = getattr(error, "strerror", None) or error
      print(f"error: {path} cannot be read: {reason}", file=sys.stderr)
      failed = True
      continue
    probabilities = np.asarray(predict(image[None]))[0]
    print(path)
    for i in np.argsort(-probabilities)[:5]:
      print(f"  {probabilities[i]:7.2%}  {config['class_names'][i]}")
  sys.exit(failed)


if __name__ == "__main__":
  main()
