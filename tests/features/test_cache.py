import numpy as np
import pytest

from pnjax.features import _cache

SHAPE = (2, 3)
KEY = {"weights": "a"}


def rows(rng, count):
  return rng.standard_normal((count, *SHAPE)).astype(np.float16)


def opened(path):
  return _cache.FeatureCache(path, KEY, SHAPE)


def test_rows_come_back_by_their_images(tmp_path, rng):
  feature_maps = rows(rng, 3)
  opened(tmp_path).write([(["a", "b"], feature_maps[:2]), (["c"], feature_maps[2:])])
  cache = opened(tmp_path)
  np.testing.assert_array_equal(cache.read(["c", "a", "c"])[:], feature_maps[[2, 0, 2]])
  np.testing.assert_array_equal(cache.read(["b"])[0], feature_maps[1])


def test_missing_lists_each_image_once(tmp_path, rng):
  cache = opened(tmp_path)
  cache.write([(["a"], rows(rng, 1))])
  assert cache.missing(["a", "b", "b", "c"]) == [1, 3]


def test_other_weights_have_another_cache(tmp_path, rng):
  opened(tmp_path).write([(["a"], rows(rng, 1))])
  other = _cache.FeatureCache(tmp_path, {"weights": "b"}, SHAPE)
  assert other.missing(["a"]) == [0]


def test_an_interrupted_cache_continues(tmp_path, rng):
  maps = rows(rng, 3)

  def interrupted():
    yield ["a"], maps[:1]
    raise KeyboardInterrupt

  cache = opened(tmp_path)
  with pytest.raises(KeyboardInterrupt):
    cache.write(interrupted())
  # Killed while it wrote numbers, and in another run while it wrote a name.
  with open(cache.folder / "maps", "ab") as file:
    file.write(b"half a row")
  with open(cache.folder / "rows", "a") as file:
    file.write("b without its end")
  cache = opened(tmp_path)
  assert cache.missing(["a", "b", "c"]) == [1, 2]
  cache.write([(["b", "c"], maps[1:])])
  np.testing.assert_array_equal(opened(tmp_path).read(["a", "b", "c"])[:], maps)


def test_a_truncated_cache_is_an_error(tmp_path, rng):
  cache = opened(tmp_path)
  cache.write([(["a", "b"], rows(rng, 2))])
  with open(cache.folder / "maps", "ab") as file:
    file.truncate(5)
  with pytest.raises(OSError, match=r"damaged: .* has 5 bytes, expected 24"):
    opened(tmp_path)


@pytest.mark.parametrize("index", [1, slice(None), np.array([0, 1])])
def test_a_changed_row_is_an_error(tmp_path, rng, index):
  cache = opened(tmp_path)
  cache.write([(["a", "b"], rows(rng, 2))])
  with open(cache.folder / "maps", "r+b") as file:
    file.seek(12)
    file.write(bytes(12))
  maps = opened(tmp_path).read(["a", "b"])
  assert np.isfinite(maps[0]).all()
  with pytest.raises(OSError, match=r"is damaged: .* Remove the folder"):
    maps[index]


@pytest.mark.parametrize("content", [b"\x95\xff\n", b"a\n", b"a z\n"])
def test_names_that_cannot_be_read_are_an_error(tmp_path, rng, content):
  cache = opened(tmp_path)
  cache.write([(["a"], rows(rng, 1))])
  (cache.folder / "rows").write_bytes(content)
  with pytest.raises(OSError, match=r"is damaged: .*rows.* Remove the folder"):
    opened(tmp_path)


def test_a_second_writer_is_refused(tmp_path, rng):
  first, second = opened(tmp_path), opened(tmp_path)

  def write_meanwhile():
    with pytest.raises(OSError, match="another process is writing"):
      second.write([])
    yield ["a"], rows(rng, 1)

  first.write(write_meanwhile())


def test_a_full_disk_is_reported(tmp_path, rng, monkeypatch):
  def full(_):
    raise OSError(28, "No space left on device")

  monkeypatch.setattr(_cache.os, "fsync", full)
  with pytest.raises(OSError, match=r"writing to .* failed: .*No space left"):
    opened(tmp_path).write([(["a"], rows(rng, 1))])


def test_features_that_do_not_fit_on_the_disk_are_not_begun(tmp_path):
  cache = opened(tmp_path)
  cache.check_space(10)
  with pytest.raises(OSError, match=r"features of 1000000000000000 images take "):
    cache.check_space(10**15)


@pytest.mark.parametrize("value", [1e6, np.nan])
def test_values_that_half_precision_cannot_hold_are_refused(tmp_path, value):
  with pytest.raises(ValueError, match="not finite in half precision"):
    opened(tmp_path).write([(["a"], np.full((1, *SHAPE), value))])


def test_an_image_that_is_not_cached(tmp_path):
  with pytest.raises(ValueError, match="lacks the image with sha256 'a'"):
    opened(tmp_path).read(["a"])
