"""The real pictures, where they are at hand."""

import pathlib

import numpy as np
import pytest

from pnjax import data
from pnjax.data import _decode

SHARED = pathlib.Path(__file__).parents[3] / "shared" / "data"


def require(name):
  if not (SHARED / name).is_dir():
    pytest.skip(f"{SHARED / name} is not there")
  return SHARED / name


@pytest.fixture(scope="module")
def fmd(tmp_path_factory):
  source, folder = require("fmd"), tmp_path_factory.mktemp("fmd")
  data.prepare("fmd", source, folder, splits=source / "splits")
  return folder


def test_fmd(fmd):
  everything = data.open_split("fmd", "all", fmd)
  assert np.bincount(everything.labels).tolist() == [100] * 10
  for split in ("half_1_train", "half_10_test"):
    labels = data.open_split("fmd", split, fmd).labels
    assert np.bincount(labels).tolist() == [50] * 10


def test_fmd_has_the_listed_folds(fmd):
  for k in range(1, 11):
    for part in ("train", "test"):
      split = data.open_split("fmd", f"fold_{k}_{part}", fmd)
      lines = (SHARED / f"fmd/splits/{part}_{k}.txt").read_text().split()
      assert len(split) == len(lines)
      assert split[7]["file"] == lines[7]
      assert split.class_names[split[7]["label"]] == lines[7].split("/")[0]


def test_fmd_is_stored_and_decoded_as_it_is(fmd):
  split = data.open_split("fmd", "all", fmd)
  grey = 0
  for i in range(0, 1000, 25):
    example = split[i]
    assert example["image"] == (SHARED / "fmd" / example["file"]).read_bytes()
    pixels = data.decode(example["image"])
    assert pixels.shape == (384, 512, 3)
    difference = pixels.astype(int) - _decode.decode_prepared(example["image"])
    assert np.abs(difference).mean() < 0.5
    grey += (pixels == pixels[..., :1]).all()
  assert grey <= 3


def test_flower102(tmp_path):
  data.prepare("flower102", require("flower102"), tmp_path)
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
