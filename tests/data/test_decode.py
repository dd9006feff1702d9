"""Images of all kinds are decoded to the RGB that a viewer shows."""

import io
import struct
import warnings
import zlib

import numpy as np
from PIL import Image
import pytest

from pnjax import data
from pnjax.data import _decode
from tests.data import archives

# Red, green, blue and white quarters, large enough for JPEG to keep their colours.
QUARTERS = np.array(
  [[[200, 30, 30], [30, 160, 60]], [[40, 60, 210], [250, 250, 250]]], np.uint8
).repeat(32, 0)
QUARTERS = QUARTERS.repeat(48, 1)


def encode(image, file_format, **options):
  file = io.BytesIO()
  image.save(file, file_format, **options)
  return file.getvalue()


def with_orientation(pixels, orientation, file_format="JPEG"):
  exif = Image.Exif()
  exif[0x0112] = orientation
  return encode(Image.fromarray(pixels), file_format, exif=exif)


def png_of_16_bits(pixels):
  """Encodes 16-bit RGB, which Pillow cannot, from uint16 `[H, W, 3]`."""

  def chunk(kind, content):
    crc = zlib.crc32(kind + content)
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", crc)

  height, width = pixels.shape[:2]
  header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
  rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
  return (
    b"\x89PNG\r\n\x1a\n"
    + chunk(b"IHDR", header)
    + chunk(b"IDAT", zlib.compress(rows))
    + chunk(b"IEND", b"")
  )


def assert_same_image(actual, expected, tolerance):
  assert actual.dtype == np.uint8
  assert actual.shape == expected.shape
  difference = np.abs(actual.astype(int) - expected.astype(int))
  assert difference.mean() <= tolerance


CASES = {
  "PNG": (encode(Image.fromarray(QUARTERS), "PNG"), 0),
  "BMP": (encode(Image.fromarray(QUARTERS), "BMP"), 0),
  "TIFF": (encode(Image.fromarray(QUARTERS), "TIFF"), 0),
  "WebP": (encode(Image.fromarray(QUARTERS), "WEBP", lossless=True), 0),
  "JPEG": (encode(Image.fromarray(QUARTERS), "JPEG", quality=95), 2),
  "progressive": (encode(Image.fromarray(QUARTERS), "JPEG", progressive=True), 2),
  "CMYK": (encode(Image.fromarray(QUARTERS).convert("CMYK"), "JPEG", quality=95), 2),
  "palette": (encode(Image.fromarray(QUARTERS).quantize(8), "PNG"), 1),
  "GIF": (encode(Image.fromarray(QUARTERS), "GIF"), 1),
  "16 bits": (png_of_16_bits(QUARTERS.astype(np.uint16) * 256 + 77), 0),
  "opaque": (encode(Image.fromarray(QUARTERS).convert("RGBA"), "PNG"), 0),
}


@pytest.mark.parametrize("case", CASES)
def test_formats(case):
  image, tolerance = CASES[case]
  assert_same_image(data.decode(image), QUARTERS, tolerance)
  np.testing.assert_array_equal(_decode.decode_prepared(image), data.decode(image))


@pytest.mark.parametrize("file_format", ["JPEG", "PNG"])
@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_orientation(turns, file_format):
  """A rotated camera records so, and the image is shown upright."""
  orientation = {0: 1, 1: 6, 2: 3, 3: 8}[turns]
  image = with_orientation(np.rot90(QUARTERS, turns), orientation, file_format)
  for decode in (data.decode, _decode.decode_prepared):
    assert_same_image(decode(image), QUARTERS, 3)


def test_grey():
  grey = QUARTERS[..., 0]
  expected = np.repeat(grey[..., None], 3, axis=2)
  image = encode(Image.fromarray(grey), "JPEG", quality=95)
  assert_same_image(data.decode(image), expected, 1)
  np.testing.assert_array_equal(_decode.decode_prepared(image), data.decode(image))
  deep = Image.fromarray(grey.astype(np.uint16) * 256 + 200)
  for file_format in ("PNG", "TIFF"):
    assert_same_image(data.decode(encode(deep, file_format)), expected, 0)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_pixels_are_white(mode):
  alpha = np.zeros(QUARTERS.shape[:2], np.uint8)
  alpha[:32] = 255
  grey = np.full(QUARTERS.shape, 70, np.uint8)
  rgba = Image.fromarray(np.dstack([grey, alpha]))
  expected = np.where(alpha[..., None] > 0, grey, 255).astype(np.uint8)
  assert_same_image(data.decode(encode(rgba.convert(mode), "PNG")), expected, 1)


def test_translucent_pixels_blend_into_white():
  pixels = np.full((8, 8, 4), (70, 70, 70, 128), np.uint8)
  expected = np.full((8, 8, 3), 162, np.uint8)
  image = encode(Image.fromarray(pixels), "PNG")
  assert_same_image(data.decode(image), expected, 1)


def test_the_first_frame_of_an_animation_is_decoded():
  first, second = Image.new("RGB", (8, 8), "red"), Image.new("RGB", (8, 8), "blue")
  image = encode(first, "GIF", save_all=True, append_images=[second])
  assert data.decode(image)[0, 0].tolist() == [255, 0, 0]


def test_paths(tmp_path):
  archives.write_image(tmp_path / "a.jpg", 0)
  expected = data.decode(archives.jpeg(0))
  np.testing.assert_array_equal(data.decode(tmp_path / "a.jpg"), expected)
  np.testing.assert_array_equal(data.decode(str(tmp_path / "a.jpg")), expected)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("quality", [30, 75, 95])
def test_opencv_and_pillow_agree_on_common_jpegs(seed, quality):
  noise = np.random.default_rng(seed).integers(256, size=(37, 53, 3), dtype=np.uint8)
  image = encode(Image.fromarray(noise), "JPEG", quality=quality)
  # Versions of libjpeg may round differently.
  assert_same_image(_decode.decode_prepared(image), data.decode(image), 0.5)


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "GIF", "WEBP", "TIFF"])
@pytest.mark.parametrize("share", [0.01, 0.5, 0.9])
def test_truncated_images_are_refused(file_format, share, tmp_path):
  noise = np.random.default_rng(0).integers(256, size=(64, 64, 3), dtype=np.uint8)
  intact = encode(Image.fromarray(noise), file_format)
  file = tmp_path / "half.jpg"
  file.write_bytes(intact[: int(share * len(intact))])
  with pytest.raises(ValueError, match=r"half\.jpg cannot be decoded"):
    data.decode(file)


@pytest.mark.parametrize("content", [b"", b"not an image", b"\xff\xd8\xff\xe0"])
def test_other_files_are_refused(content):
  message = "the image cannot be decoded: it is none of JPEG, PNG, GIF"
  with pytest.raises(ValueError, match=message):
    data.decode(content)


def test_what_opencv_cannot_decode_is_left_to_pillow(monkeypatch):
  monkeypatch.setattr(_decode.cv2, "imdecode", lambda content, flags: None)
  image = archives.jpeg(0)
  np.testing.assert_array_equal(_decode.decode_prepared(image), data.decode(image))


@pytest.mark.parametrize("side", [9_600, 60_000])
def test_a_decompression_bomb_is_refused(side):
  """A file of a few bytes whose header claims gigabytes."""
  with pytest.raises(ValueError, match="pixels"):
    data.decode(png_that_claims(side))


def test_a_decompression_bomb_is_refused_as_jpeg(monkeypatch):
  monkeypatch.setattr(_decode, "MAX_PIXELS", 40 * 32 - 1)
  with pytest.raises(ValueError, match="40 × 32 pixels, expected at most 1279"):
    _decode.decode_prepared(archives.jpeg(0))


def test_warnings_about_sizes_are_not_shown():
  """Pillow warns before the size is checked here."""
  with warnings.catch_warnings(record=True) as shown:
    warnings.simplefilter("always")
    _decode.ignore_warnings()
    with pytest.raises(ValueError, match="9600 × 9600 pixels, expected at most"):
      data.decode(png_that_claims(9_600))
  assert shown == []


def png_that_claims(side):
  bomb = bytearray(encode(Image.new("L", (1, 1)), "PNG"))
  bomb[16:24] = struct.pack(">II", side, side)
  bomb[29:33] = struct.pack(">I", zlib.crc32(bomb[12:29]))
  return bytes(bomb)
