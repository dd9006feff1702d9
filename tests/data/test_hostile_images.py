"""Small files that would need much memory or time, and names that lie."""

import io
import struct
import subprocess
import sys
import time
import zlib

import numpy as np
from PIL import Image
import pytest

from pnjax import data
from pnjax.data import _decode
from tests.data import archives

ZEROS = 100_000_000


def encode(image, file_format, **options):
  file = io.BytesIO()
  image.save(file, file_format, **options)
  return file.getvalue()


def chunk(kind, content):
  crc = zlib.crc32(kind + content)
  return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", crc)


def png_with(*chunks):
  """A PNG with chunks behind its header."""
  png = encode(Image.new("RGB", (8, 8)), "PNG")
  return png[:33] + b"".join(chunks) + png[33:]


def packed(size):
  compressor = zlib.compressobj(9)
  parts = [compressor.compress(bytes(1_000_000)) for _ in range(size // 1_000_000)]
  return b"".join(parts) + compressor.flush()


def animation(file_format, num_frames=500):
  frames = [Image.new("P", (8, 8), i % 256) for i in range(num_frames)]
  return encode(frames[0], file_format, save_all=True, append_images=frames[1:])


def gif_that_claims(width, height):
  gif = bytearray(encode(Image.new("P", (8, 8)), "GIF"))
  gif[6:10] = struct.pack("<HH", width, height)
  return bytes(gif)


def gif_with_a_frame_of(width, height):
  gif = bytearray(encode(Image.new("P", (8, 8)), "GIF"))
  start = gif.index(b",\0\0\0\0")
  gif[start + 5 : start + 9] = struct.pack("<HH", width, height)
  return bytes(gif)


def bmp_that_claims(width, height):
  bmp = bytearray(encode(Image.new("RGB", (8, 8)), "BMP"))
  bmp[18:26] = struct.pack("<ii", width, height)
  return bytes(bmp)


def tiff_that_claims(side):
  tiff = encode(Image.new("RGB", (8, 8)), "TIFF")
  for tag in (256, 257):
    entry = struct.pack("<HHI", tag, 4, 1) + struct.pack("<I", 8)
    assert entry in tiff
    tiff = tiff.replace(entry, entry[:8] + struct.pack("<I", side))
  return tiff


def jpeg_with_scans(count, side=2000):
  """A progressive JPEG of one colour whose last scan is repeated."""
  jpeg = encode(Image.new("L", (side, side), 128), "JPEG", progressive=True)
  last = jpeg.rindex(b"\xff\xda")
  return jpeg[:last] + jpeg[last:-2] * count + jpeg[-2:]


REFUSED = {
  "text of a PNG": lambda: png_with(chunk(b"zTXt", b"a\0\0" + packed(ZEROS))),
  "international text of a PNG": lambda: png_with(
    chunk(b"iTXt", b"a\0\1\0\0\0" + packed(ZEROS))
  ),
  "many texts of a PNG": lambda: png_with(
    *[chunk(b"zTXt", b"a\0\0" + packed(1_000_000))] * 100
  ),
  "profile of a PNG": lambda: png_with(chunk(b"iCCP", b"a\0\0" + packed(ZEROS))),
  "size of a GIF": lambda: gif_that_claims(60_000, 60_000),
  "size of a frame": lambda: gif_with_a_frame_of(60_000, 60_000),
  "size of a BMP": lambda: bmp_that_claims(60_000, 60_000),
  "size of a TIFF": lambda: tiff_that_claims(60_000),
  "scans of a JPEG": lambda: jpeg_with_scans(3000),
}


@pytest.mark.parametrize("case", REFUSED)
def test_bombs_are_refused(case):
  content = REFUSED[case]()
  assert len(content) < 1_000_000
  for decode in (data.decode, _decode.decode_prepared):
    start = time.process_time()
    with pytest.raises(ValueError, match=r"^the image cannot be decoded: "):
      decode(content)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("file_format", ["GIF", "PNG", "WEBP", "TIFF"])
def test_only_the_first_of_many_frames_is_decoded(file_format):
  content = animation(file_format)
  for decode in (data.decode, _decode.decode_prepared):
    assert decode(content).shape == (8, 8, 3)


def test_a_large_profile_is_not_used():
  content = encode(Image.new("RGB", (8, 8)), "JPEG", icc_profile=bytes(5_000_000))
  for decode in (data.decode, _decode.decode_prepared):
    assert decode(content).shape == (8, 8, 3)


def test_exif_that_is_not_exif_is_not_used():
  content = encode(Image.new("RGB", (8, 8)), "JPEG", exif=b"Exif\0\0" + bytes(60_000))
  for decode in (data.decode, _decode.decode_prepared):
    assert decode(content).shape == (8, 8, 3)


@pytest.mark.parametrize(
  "content",
  [
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n",
    encode(Image.new("RGB", (8, 8)), "TGA"),
    encode(Image.new("RGB", (8, 8)), "ICO"),
    encode(Image.new("RGB", (8, 8)), "PDF"),
  ],
  ids=["EPS", "TGA", "ICO", "PDF"],
)
def test_formats_of_other_suffixes_are_refused(content):
  """EPS would start Ghostscript."""
  with pytest.raises(ValueError, match="decoded: it is none of JPEG, PNG, GIF"):
    data.decode(content)


def test_the_content_decides_not_the_suffix(source, data_dir):
  archives.folder(source)
  png = encode(Image.fromarray(np.arange(192, dtype=np.uint8).reshape(8, 8, 3)), "PNG")
  (source / "ant/0.jpg").write_bytes(png)
  data.prepare("folder", source, data_dir)
  stored = {e["file"]: e["image"] for e in data.open_split("folder", "all", data_dir)}
  assert data.decode(stored["ant/0.jpg"])[0, 1].tolist() == [3, 4, 5]


@pytest.mark.slow
def test_bombs_need_little_memory():
  """In a process of its own, whose memory is that of the images."""
  script = """
import resource
from pnjax import data
from pnjax.data import _decode
from tests.data import test_hostile_images
cases = [make() for make in test_hostile_images.REFUSED.values()]
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
before = peak()
for content in cases:
  for decode in (data.decode, _decode.decode_prepared):
    try:
      decode(content)
    except ValueError:
      pass
print(peak() - before)
"""
  command = [sys.executable, "-c", script]
  process = subprocess.run(command, capture_output=True, text=True, check=True)
  assert float(process.stdout) < 300  # Megabytes.
