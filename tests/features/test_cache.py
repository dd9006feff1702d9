import errno
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from pnjax.features import _cache
from tests.small_disks import small_disk

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


def test_a_disk_that_is_full_midway_keeps_what_is_complete(tmp_path, rng):
  big = (64, 1024)  # 128 KiB per image.
  with small_disk(tmp_path):
    maps = rng.standard_normal((40, *big)).astype(np.float16)
    names = [f"image{i}" for i in range(40)]
    batches = [(names[i : i + 3], maps[i : i + 3]) for i in range(0, 40, 3)]
    (tmp_path / "other").write_bytes(bytes(2 * 2**20))
    cache = _cache.FeatureCache(tmp_path, KEY, big)
    with pytest.raises(OSError, match=r"writing to .* failed: No space left .* kept"):
      cache.write(batches)
    (tmp_path / "other").unlink()
    cache = _cache.FeatureCache(tmp_path, KEY, big)
    missing = cache.missing(names)
    assert 0 < len(missing) < 40
    done = 40 - len(missing)
    np.testing.assert_array_equal(cache.read(names[:done])[:], maps[:done])
    cache.write([(names[done:22], maps[done:22])])
    np.testing.assert_array_equal(cache.read(names[:22])[:], maps[:22])


@pytest.mark.parametrize("short", ["maps", "rows"])
def test_a_write_that_breaks_off_is_repeated(tmp_path, rng, monkeypatch, short):
  maps, write_all = rows(rng, 2), _cache._write_all

  def full(file, data):
    if file.name.endswith(short):
      write_all(file, data[:5])
      raise OSError(28, "No space left on device")
    write_all(file, data)

  cache = opened(tmp_path)
  cache.write([(["a"], maps[:1])])
  with monkeypatch.context() as patch:
    patch.setattr(_cache, "_write_all", full)
    with pytest.raises(OSError, match="No space left"):
      cache.write([(["b"], maps[1:])])
  cache = opened(tmp_path)
  assert cache.missing(["a", "b"]) == [1]
  cache.write([(["b"], maps[1:])])
  np.testing.assert_array_equal(cache.read(["a", "b"])[:], maps)


def test_a_cache_that_shrinks_while_it_is_read_is_an_error(tmp_path, rng):
  cache = opened(tmp_path)
  cache.write([(["a", "b"], rows(rng, 2))])
  maps = cache.read(["a", "b"])
  os.truncate(cache.folder / "maps", 14)
  assert maps[0].shape == SHAPE
  with pytest.raises(OSError, match=r"is damaged: .* does not have the numbers"):
    maps[1]


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO])
def test_a_disk_that_fails_while_it_is_read(tmp_path, rng, monkeypatch, number):
  cache = opened(tmp_path)
  cache.write([(["a"], rows(rng, 1))])
  maps = cache.read(["a"])

  def fail(*_):
    raise OSError(number, os.strerror(number))

  monkeypatch.setattr(_cache.os, "preadv", fail)
  with pytest.raises(OSError, match=f"maps cannot be read: {os.strerror(number)}"):
    maps[0]


def test_a_cache_that_vanished(tmp_path, rng):
  cache = opened(tmp_path)
  cache.write([(["a"], rows(rng, 1))])
  shutil.rmtree(cache.folder)
  with pytest.raises(OSError, match="maps cannot be read: No such file"):
    cache.read(["a"])
  with pytest.raises(FileNotFoundError, match="lock"):
    cache.write([(["b"], rows(rng, 1))])


def test_a_cache_without_its_numbers_is_an_error(tmp_path, rng):
  cache = opened(tmp_path)
  cache.write([(["a"], rows(rng, 1))])
  (cache.folder / "maps").unlink()
  with pytest.raises(OSError, match=r"is damaged: it has no .*maps\. Remove the"):
    opened(tmp_path)


def test_a_cache_that_is_a_file(tmp_path):
  (tmp_path / "file").touch()
  with pytest.raises(OSError, match=r"features cannot be stored in .*file: "):
    opened(tmp_path / "file")


def test_a_complete_cache_on_a_read_only_disk_is_read(tmp_path, rng):
  maps = rows(rng, 1)
  with small_disk(tmp_path) as remount_read_only:
    opened(tmp_path).write([(["a"], maps)])
    remount_read_only()
    cache = opened(tmp_path)
    np.testing.assert_array_equal(cache.read(["a"])[:], maps)
    with pytest.raises(OSError, match="Read-only file system"):
      cache.write([(["b"], maps)])
    with pytest.raises(OSError, match=r"features cannot be stored in .* Read-only"):
      _cache.FeatureCache(tmp_path, {"weights": "b"}, SHAPE)


def test_the_lock_of_a_killed_process_does_not_block(tmp_path, rng):
  cache, batches = opened(tmp_path), [(["a"], rows(rng, 1))]
  code = """
import fcntl, sys, time
with open(sys.argv[1], "w") as file:
  fcntl.flock(file, fcntl.LOCK_EX)
  print("locked", flush=True)
  time.sleep(60)
"""
  with subprocess.Popen(
    [sys.executable, "-c", code, cache.folder / "lock"], stdout=subprocess.PIPE
  ) as process:
    assert process.stdout.readline() == b"locked\n"
    with pytest.raises(BlockingIOError, match="another process is writing"):
      cache.write(batches)
    process.kill()
  cache.write(batches)
  assert opened(tmp_path).missing(["a"]) == []


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
