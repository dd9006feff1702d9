"""Files with random changes give a result, or a ValueError or OSError."""

import io
import json
import resource
import shutil
import time
from unittest import mock
import warnings

import hypothesis
from hypothesis import strategies as st
import numpy as np
from PIL import Image
import pytest

from pnjax import data
from pnjax.data import _decode
from pnjax.data import _prepare
from pnjax.data._archive import Archive
from pnjax.data._label_file import read_label_file
from tests.data import archives


def settings(max_examples):
  return hypothesis.settings(
    max_examples=max_examples, derandomize=True, deadline=None, database=None
  )


def encode(image, file_format, **options):
  file = io.BytesIO()
  image.save(file, file_format, **options)
  return file.getvalue()


def make_images():
  pixels = np.random.default_rng(0).integers(256, size=(24, 20, 3), dtype=np.uint8)
  image = Image.fromarray(pixels)
  frames = {"save_all": True, "append_images": [image.rotate(180)]}
  exif = Image.Exif()
  exif[0x0112], exif[0x010F] = 6, "maker"
  return {
    "JPEG": encode(image, "JPEG", exif=exif, icc_profile=bytes(100)),
    "progressive": encode(image, "JPEG", progressive=True),
    "CMYK": encode(image.convert("CMYK"), "JPEG"),
    "PNG": encode(image.convert("RGBA"), "PNG", exif=exif),
    "palette": encode(image.quantize(8), "PNG", transparency=0),
    "GIF": encode(image, "GIF", **frames),
    "WebP": encode(image, "WEBP", **frames),
    "TIFF": encode(image, "TIFF", compression="tiff_lzw"),
    "BMP": encode(image, "BMP"),
  }


IMAGES = make_images()


@st.composite
def changed(draw, content):
  """The content with a few flipped, replaced, repeated, removed or added bytes."""
  changed = bytearray(content)
  for _ in range(draw(st.integers(1, 4))):
    kind = draw(st.sampled_from(["flip", "set", "repeat", "remove", "add", "cut"]))
    start = draw(st.integers(0, max(len(changed) - 1, 0)))
    end = start + draw(st.integers(1, 32))
    if kind == "flip" and changed:
      changed[start] ^= 1 << draw(st.integers(0, 7))
    elif kind == "set":
      changed[start : start + 4] = draw(st.binary(min_size=4, max_size=4))
    elif kind == "repeat":
      changed[start:start] = changed[start:end]
    elif kind == "remove":
      del changed[start:end]
    elif kind == "add":
      changed[start:start] = draw(st.binary(max_size=8))
    elif kind == "cut":
      del changed[start:]
  return bytes(changed)


@pytest.mark.parametrize("name", IMAGES)
def test_changed_images(name):
  @settings(60)
  @hypothesis.given(changed(IMAGES[name]))
  def decode_changed(content):
    for decode in (data.decode, _decode.decode_prepared):
      start = time.process_time()
      try:
        image = decode(content)
      except ValueError as error:
        assert str(error).startswith("the image cannot be decoded: ")
      else:
        assert image.dtype == np.uint8
        assert image.ndim == 3 and image.shape[2] == 3
      assert time.process_time() - start < 10

  peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
  with (
    mock.patch.object(_decode, "MAX_PIXELS", 1 << 20),
    warnings.catch_warnings(record=True) as shown,
  ):
    warnings.simplefilter("always")
    _decode.ignore_warnings()
    decode_changed()
  assert [str(warning.message) for warning in shown] == []
  grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
  assert grown < 200_000  # Kilobytes.


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  """The folder of a prepared dataset of 4 images in 2 classes."""
  root = tmp_path_factory.mktemp("intact")
  archives.folder(root / "source", per_class=2)
  return data.prepare("folder", root / "source", root / "data")


def open_changed(folder, file, content, data_dir):
  """Opens and reads a copy with another file: it is as before, or refused."""
  copy = _prepare.prepared_folder("folder", data_dir)
  shutil.rmtree(copy, ignore_errors=True)
  shutil.copytree(folder, copy)
  (copy / file).write_bytes(content)
  try:
    split = data.open_split("folder", "all", data_dir)
    examples = list(split)
  except (OSError, ValueError) as error:
    assert str(error)
    assert "\n" not in str(error)
    return
  assert split.class_names == ("ant", "bee")
  assert len(examples) == len(split.labels) == len(split.digests) == 4
  assert set(split.labels.tolist()) <= {0, 1}
  assert all(data.decode(example["image"]).any() for example in examples)


@pytest.mark.parametrize(
  "file", ["dataset_info.json", "features.json", "metadata.json", "label.labels.txt"]
)
def test_changed_bytes_of_descriptions(folder, tmp_path, file):
  @settings(40)
  @hypothesis.given(changed((folder / file).read_bytes()))
  def check(content):
    open_changed(folder, file, content, tmp_path)

  check()


def places(tree):
  """The containers in a tree of JSON, with the keys of their entries."""
  if isinstance(tree, dict | list):
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
      yield tree, key
      yield from places(tree[key])


@st.composite
def changed_values(draw, content):
  """JSON with another value, or one value less, somewhere."""
  tree = json.loads(content)
  container, key = draw(st.sampled_from(list(places(tree))))
  value = draw(
    st.sampled_from([None, True, -1, 0, 5, 10**30, 0.5, "", "7", "x", [], {}, "gone"])
  )
  if value == "gone":
    del container[key]
  else:
    container[key] = value
  return json.dumps(tree).encode()


@pytest.mark.parametrize(
  "file", ["dataset_info.json", "features.json", "metadata.json"]
)
def test_changed_values_of_descriptions(folder, tmp_path, file):
  @settings(60)
  @hypothesis.given(changed_values((folder / file).read_bytes()))
  def check(content):
    open_changed(folder, file, content, tmp_path)

  check()


def test_changed_record_files(folder, tmp_path):
  (path,) = folder.glob("*train.array_record*")

  @settings(40)
  @hypothesis.given(changed(path.read_bytes()))
  def check(content):
    open_changed(folder, path.name, content, tmp_path)

  check()


def test_changed_label_files(tmp_path):
  for i in range(6):
    archives.write_image(tmp_path / f"{i}.jpg", i)
  lines = [f'{i}.jpg,"bee {i % 2}",{("train", "test")[i // 4]}' for i in range(6)]
  content = "\n".join(["path,label,split", *lines, ""]).encode()

  @settings(200)
  @hypothesis.given(changed(content))
  def check(content):
    path = tmp_path / "labels.csv"
    path.write_bytes(content)
    try:
      archive = read_label_file(path)
    except (OSError, ValueError) as error:
      assert str(error)
      assert "\n" not in str(error)
      return
    assert isinstance(archive, Archive)
    assert {image.label for image in archive.images} == set(
      range(len(archive.class_names))
    )
    assert all(image.read() for image in archive.images)

  check()
