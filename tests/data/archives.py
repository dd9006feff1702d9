"""Small archives in the official layouts, generated on the fly."""

import io

import numpy as np
from PIL import Image
import scipy.io

MIT67_CLASSES = ("airport_inside", "bakery", "closet")
FOOD101_CLASSES = ("apple_pie", "baklava")


def jpeg(seed, size=(40, 32)):
  """An image of smooth noise, as JPEG; the size is width and height."""
  noise = np.random.default_rng(seed).integers(256, size=(4, 4, 3), dtype=np.uint8)
  file = io.BytesIO()
  Image.fromarray(noise).resize(size, Image.Resampling.BICUBIC).save(file, "JPEG")
  return file.getvalue()


def write_image(path, seed, size=(40, 32)):
  path.parent.mkdir(parents=True, exist_ok=True)
  path.write_bytes(jpeg(seed, size))


def flower102(root):
  """Six images per split, of classes 1, 2 and 102."""
  labels = np.array([[1, 2, 102] * 6], np.uint8)
  ids = np.random.default_rng(0).permutation(18) + 1
  names = ("trnid", "valid", "tstid")
  scipy.io.savemat(root / "imagelabels.mat", {"labels": labels})
  parts = dict(zip(names, ids.reshape(3, 1, 6).astype(np.uint16), strict=True))
  scipy.io.savemat(root / "setid.mat", parts)
  for number in ids:
    write_image(root / f"jpg/image_{number:05}.jpg", int(number))
  return labels.ravel().astype(int) - 1, {k: v.ravel() for k, v in parts.items()}


def mit67(root):
  """Ten images per class, of which the official lists name six and two."""
  lists = {"TrainImages.txt": [], "TestImages.txt": []}
  for c, name in enumerate(MIT67_CLASSES):
    files = [f"{name}/{name}_{i}.jpg" for i in range(10)]
    for i, file in enumerate(files):
      write_image(root / "Images" / file, 10 * c + i)
    # Unsorted, and not the images that any other rule would select.
    lists["TrainImages.txt"] += files[7:1:-1]
    lists["TestImages.txt"] += files[8:]
  for name, lines in lists.items():
    (root / name).write_text("\n".join(lines))  # Without a final newline.
  return lists


def fmd(root, classes, per_class=10):
  """Class folders, with the masks and stray files that the archive also has."""
  for c, name in enumerate(classes):
    for i in range(per_class):
      write_image(root / f"image/{name}/{name}_{i:03}_new.jpg", per_class * c + i)
      write_image(root / f"mask/{name}/{name}_{i:03}_new.jpg", 0)
    (root / f"image/{name}/Thumbs.db").write_bytes(b"not an image")


def food101(root):
  """Four training and two test images per class, as `food-101.tar.gz` unpacks."""
  root = root / "food-101"
  lists = {"train": [], "test": []}
  for c, name in enumerate(FOOD101_CLASSES):
    for i in range(6):
      write_image(root / f"images/{name}/{1000 + i}.jpg", 10 * c + i)
      lists["test" if i % 3 == 0 else "train"].append(f"{name}/{1000 + i}")
  (root / "meta").mkdir()
  for split, lines in lists.items():
    (root / f"meta/{split}.txt").write_text("\n".join(lines) + "\n")
  return lists


def folder(root, classes=("ant", "bee"), per_class=5):
  """Class folders."""
  for c, name in enumerate(classes):
    for i in range(per_class):
      write_image(root / name / f"{i}.jpg", per_class * c + i)
