import numpy as np
import pytest

from pnjax.data import _transforms


def ramp(height, width):
  """An image whose red is the column and green the row, both from 0 to 255."""
  x = np.broadcast_to(np.linspace(0, 255, width), (height, width))
  y = np.broadcast_to(np.linspace(0, 255, height)[:, None], (height, width))
  return np.stack([x, y, np.zeros_like(x)], axis=2).round().astype(np.uint8)


def test_squash_keeps_the_whole_image():
  result = _transforms.squash(ramp(60, 200), 50)
  assert result.shape == (50, 50, 3)
  np.testing.assert_allclose(result.astype(int), ramp(50, 50), atol=4)


def test_center_keeps_the_aspect_ratio():
  result = _transforms.center(ramp(64, 128), 64)
  np.testing.assert_array_equal(result, ramp(64, 128)[:, 32:96])
  result = _transforms.center(ramp(128, 64), 32)
  assert result.shape == (32, 32, 3)
  np.testing.assert_allclose(
    result[:, 0, 1].astype(int), ramp(128, 64)[33:97:2, 0, 1], atol=2
  )


def test_shrinking_averages():
  """Stripes of one pixel become grey at any size, without aliasing."""
  stripes = np.zeros((90, 300, 3), np.uint8)
  stripes[:, ::2] = 255
  for size in (20, 64, 100):
    result = _transforms.squash(stripes, size).astype(int)
    assert np.abs(result - 127.5).max() < 45


def test_areas_and_aspect_ratios_of_random_crops(rng):
  areas, aspects = [], []
  for _ in range(300):
    part = _transforms.squash(_transforms.random_part(ramp(256, 256), rng), 64).astype(
      int
    )
    assert part.shape == (64, 64, 3)
    width, height = np.ptp(part[..., 0]) / 255, np.ptp(part[..., 1]) / 255
    areas.append(width * height)
    aspects.append(width / height)
  assert 0.2 < min(areas) < 0.32
  assert 0.9 < max(areas) <= 1
  assert 0.7 < min(aspects) < 0.85
  assert 1.18 < max(aspects) < 1.4


@pytest.mark.parametrize("shape", [(1, 1), (1, 900), (700, 2)])
def test_images_of_any_shape(shape, rng):
  image = ramp(*shape)
  part = _transforms.random_part(image, rng)
  assert _transforms.squash(part, 32).shape == (32, 32, 3)
  assert _transforms.center(image, 32).shape == (32, 32, 3)
  assert _transforms.squash(image, 32).shape == (32, 32, 3)
  assert _transforms.twelve_crops(image, 28, 32).shape == (12, 28, 28, 3)


def test_half_of_the_images_are_flipped(rng):
  image = ramp(8, 8)
  flipped = [_transforms.random_flip(image, rng)[0, 0, 0] == 255 for _ in range(400)]
  assert 150 < sum(flipped) < 250


def test_twelve_crops():
  image = ramp(256, 384)
  crops = _transforms.twelve_crops(image, 224, 256)
  assert crops.shape == (12, 224, 224, 3)
  expected = [
    image[:224, :224],
    image[:224, 160:],
    image[32:, :224],
    image[32:, 160:],
    image[16:240, 80:304],
    _transforms.squash(image, 224),
  ]
  for i, crop in enumerate(expected):
    np.testing.assert_array_equal(crops[i], crop)
    np.testing.assert_array_equal(crops[6 + i], crop[:, ::-1])


def test_twelve_crops_do_not_depend_on_the_resolution():
  small = _transforms.twelve_crops(ramp(256, 384), 224, 256).astype(int)
  large = _transforms.twelve_crops(ramp(1024, 1536), 224, 256).astype(int)
  np.testing.assert_allclose(large, small, atol=3)


def test_a_larger_resize_side_makes_smaller_crops():
  crops = _transforms.twelve_crops(ramp(384, 384), 224, 384)
  np.testing.assert_array_equal(crops[0], ramp(384, 384)[:224, :224])
