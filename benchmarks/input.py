"""Speed of the input pipeline against PyTorch's, on the same machine in one run.

  python -m benchmarks.input --source=FMD > benchmarks/results/input.md

What it prints is a page in Markdown: images per second, from files to batches, of
pnjax, which reads array_record in Grain's threads, and of a plain PyTorch `DataLoader`
with as many processes, which reads files with Pillow. They take turns. The images are
those of FMD if its folder is given, and synthetic otherwise.

A second table compares the decoders, OpenCV and Pillow: one image on one thread.
"""

import argparse
from collections.abc import Callable
import importlib.util
import io
import os
import pathlib
import tempfile

import cv2
import numpy as np
from PIL import Image

from benchmarks import timing
from experiments import cli
from pnjax import data
from pnjax.data import _decode
from pnjax.data import _transforms

_TARGET = 1.3
_NUM_SYNTHETIC = 512
_SYNTHETIC_SIZE = (512, 384)  # The size of FMD's images.


class PillowFiles:
  """A PyTorch dataset as it is commonly written."""

  def __init__(self, files: list[pathlib.Path], size: int):
    self._files = files
    self._size = size

  def __len__(self) -> int:
    return len(self._files)

  def __getitem__(self, index: int) -> np.ndarray:
    return pillow(self._files[index], self._size)


def main() -> None:
  """Print the page."""
  args = _parse()
  print("# Speed of the input pipeline\n")
  with tempfile.TemporaryDirectory() as folder:
    split = prepare(args.source, pathlib.Path(folder))
    files = write_files(split, pathlib.Path(folder) / "files")
    print(
      f"{timing.machine()}; {len(split)} images, from files to batches of {args.batch} "
      f"of {args.size} × {args.size}, {args.workers} workers; medians of"
    )
    print(f"\n```sh\n{cli.command_line('benchmarks.input')}\n```\n")
    print_pipelines(split, files, args)
    print("\n## Decoding and resizing, one thread\n")
    print_decoders(files, args)


def print_pipelines(
  split: data.Split, files: list[pathlib.Path], args: argparse.Namespace
) -> None:
  """Compare the pipelines, or print the speed of pnjax without PyTorch."""
  cases = {"pnjax": grain_pass(split, args)}
  if importlib.util.find_spec("torch") is not None:
    cases["PyTorch, Pillow"] = torch_pass(files, args)
  speeds = {
    name: len(split) / seconds
    for name, seconds in timing.measure(cases, args.rounds).items()
  }
  print("| pipeline | images per second |")
  print("|---|---:|")
  for name, speed in speeds.items():
    print(f"| {name} | {speed:.0f} |")
  if len(speeds) == 2:
    ratio = speeds["pnjax"] / speeds["PyTorch, Pillow"]
    met = "met" if ratio >= _TARGET else "not met"
    print(f"| ratio (target: >= {_TARGET}, {met}) | {ratio:.2f} |")
  print(f"\nLoad average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores.")


def prepare(fmd: pathlib.Path | None, folder: pathlib.Path) -> data.Split:
  """Prepare FMD or synthetic images in a folder, and open them."""
  if fmd is not None:
    data.prepare("fmd", fmd, folder)
    return data.open_split("fmd", "all", folder)
  data.prepare("folder", write_synthetic_images(folder / "synthetic"), folder)
  return data.open_split("folder", "all", folder)


def write_files(split: data.Split, folder: pathlib.Path) -> list[pathlib.Path]:
  """Write each image to a file."""
  folder.mkdir()
  files = [folder / f"{i}.jpg" for i in range(len(split))]
  for file, example in zip(files, split, strict=True):
    file.write_bytes(example["image"])
  return files


def write_synthetic_images(folder: pathlib.Path) -> pathlib.Path:
  """Write JPEGs of two classes with details at all scales, like photographs."""
  classes = [folder / "one", folder / "other"]
  for path in classes:
    path.mkdir(parents=True)
  rng = np.random.default_rng(0)
  width, height = _SYNTHETIC_SIZE
  for i in range(_NUM_SYNTHETIC):
    pixels = np.full((height, width, 3), 128.0)
    for scale in (4, 16, 64, 256):
      shape = (height // scale + 1, width // scale + 1, 3)
      noise = rng.normal(0, 12 * np.log2(scale) / 2, shape)
      pixels += cv2.resize(noise, _SYNTHETIC_SIZE)
    image = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
    image.save(classes[i % 2] / f"{i:04}.jpg", quality=90)
  return folder


def grain_pass(split: data.Split, args: argparse.Namespace) -> Callable[[], None]:
  """Return a function that reads all images with pnjax."""
  batches = data.eval_batches(
    split, batch_size=args.batch, image_size=args.size, num_threads=args.workers
  )
  return lambda: _exhaust(batches)


def torch_pass(
  files: list[pathlib.Path], args: argparse.Namespace
) -> Callable[[], None]:
  """Return a function that reads all images with PyTorch, in lasting processes."""
  # Imported here, since PyTorch is optional.
  from torch.utils.data import DataLoader

  batches = DataLoader(
    PillowFiles(files, args.size),
    batch_size=args.batch,
    num_workers=args.workers,
    persistent_workers=True,
    multiprocessing_context="spawn",
  )
  return lambda: _exhaust(batches)


def pillow(file: pathlib.Path | io.BytesIO, size: int) -> np.ndarray:
  """Decode and resize an image with Pillow."""
  with Image.open(file) as image:
    resized = image.convert("RGB").resize((size, size), Image.Resampling.BILINEAR)
  return np.array(resized)


def print_decoders(files: list[pathlib.Path], args: argparse.Namespace) -> None:
  """Compare the decoders on images in memory."""
  contents = [file.read_bytes() for file in files[:: max(1, len(files) // 100)]]
  cases = {
    "OpenCV": lambda: [
      _transforms.squash(_decode.decode_prepared(content), args.size)
      for content in contents
    ],
    "Pillow": lambda: [pillow(io.BytesIO(content), args.size) for content in contents],
  }
  print("| decoder | ms per image |")
  print("|---|---:|")
  for name, seconds in timing.measure(cases, args.rounds).items():
    print(f"| {name} | {1e3 * seconds / len(contents):.2f} |")


def _exhaust(batches) -> None:
  for _ in batches:
    pass


def _parse() -> argparse.Namespace:
  parser = argparse.ArgumentParser(
    description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("--source", type=pathlib.Path, help="folder of FMD")
  parser.add_argument("--batch", type=int, default=32)
  parser.add_argument("--size", type=int, default=448)
  parser.add_argument("--workers", type=int, default=os.cpu_count())
  parser.add_argument("--rounds", type=int, default=5)
  return parser.parse_args()


if __name__ == "__main__":
  main()
