"""Real images, if they are available; see `tests/real_data.py`."""

import numpy as np
import pytest

from pnjax import data
from pnjax.data import _decode
from tests import real_data


@pytest.fixture(scope="module")
def source():
  return real_data.require("data", "fmd")


@pytest.fixture(scope="module")
def fmd(source, tmp_path_factory):
  """A folder of datasets with `fmd`."""
  folder = tmp_path_factory.mktemp("fmd")
  data.prepare("fmd", source, folder, splits=source / "splits")
  return folder


def test_fmd(fmd):
  everything = data.open_split("fmd", "all", fmd)
  assert np.bincount(everything.labels).tolist() == [100] * 10
  for split in ("half_1_train", "half_10_test"):
    labels = data.open_split("fmd", split, fmd).labels
    assert np.bincount(labels).tolist() == [50] * 10


def test_fmd_has_the_listed_folds(fmd, source):
  for k in range(1, 11):
    for part in ("train", "test"):
      split = data.open_split("fmd", f"fold_{k}_{part}", fmd)
      lines = (source / f"splits/{part}_{k}.txt").read_text().split()
      assert len(split) == len(lines)
      assert split[7]["file"] == lines[7]
      assert split.class_names[split[7]["label"]] == lines[7].split("/")[0]


def test_fmd_is_stored_unchanged_and_decoded_correctly(fmd, source):
  split = data.open_split("fmd", "all", fmd)
  num_grey = 0
  for i in range(0, 1000, 25):
    example = split[i]
    assert example["image"] == (source / example["file"]).read_bytes()
    pixels = data.decode(example["image"])
    assert pixels.shape == (384, 512, 3)
    difference = pixels.astype(int) - _decode.decode_prepared(example["image"])
    assert np.abs(difference).mean() < 0.5
    num_grey += (pixels == pixels[..., :1]).all()
  assert num_grey <= 3


@pytest.mark.slow
def test_flower102(tmp_path):
  data.prepare("flower102", real_data.require("data", "flower102"), tmp_path)
  for name in ("train", "validation"):
    split = data.open_split("flower102", name, tmp_path)
    assert np.bincount(split.labels).tolist() == [10] * 102
  test = data.open_split("flower102", "test", tmp_path)
  counts = np.bincount(test.labels)
  assert (len(counts), counts.sum()) == (102, 6149)
  assert (counts.min(), counts.max()) == (20, 238)
  batch = next(
    iter(data.eval_batches(test, batch_size=2, image_size=224, num_crops=12))
  )
  assert batch["image"].shape == (2, 12, 224, 224, 3)
