import pickle
import re
import shutil

import numpy as np
import pytest

from pnjax import data
from pnjax.data import _prepare
from tests.data import archives


def test_examples(split):
  example = split[-1]
  assert set(example) == {"image", "label", "file"}
  assert isinstance(example["image"], bytes)
  assert type(example["label"]) is int
  assert isinstance(example["file"], str)
  assert data.decode(example["image"]).shape == (32, 40, 3)
  assert split.labels.dtype == np.int32
  assert (split.name, split.split) == ("folder", "all")


def test_a_split_is_a_sequence(split):
  assert len(list(split)) == len(split) == 21
  for index in (21, -22):
    with pytest.raises(IndexError, match=f"{index}, but the split has 21 images"):
      split[index]


def test_a_subset_has_its_own_order(split):
  subset = split.subset([7, 3, 3, 20])
  assert [e["file"] for e in subset] == [split[i]["file"] for i in (7, 3, 3, 20)]
  assert subset.labels.tolist() == split.labels[[7, 3, 3, 20]].tolist()
  assert subset.subset([1])[0] == split[3]
  assert subset.class_names == split.class_names
  assert len(split.subset(np.flatnonzero(split.labels == 1))) == 7


def test_tfds_syntax(prepared):
  def files(spec):
    return [e["file"] for e in data.open_split("folder", spec, prepared)]

  train, test = files("train"), files("test")
  assert files("train+test") == train + test
  assert files("train[:50%]") == train[:9]
  assert files("test[1:]+train[-2:]") == test[1:] + train[-2:]


@pytest.mark.parametrize("spec", ["validation", "train+", "train[a]", "", "all[:3]"])
def test_unknown_splits(prepared, spec):
  with pytest.raises(ValueError, match="expected all, one of train, test, or sums"):
    data.open_split("folder", spec, prepared)


def test_unknown_datasets(prepared):
  names = ", ".join(data.DATASETS)
  with pytest.raises(FileNotFoundError, match=f"'imagenet', expected one of {names}"):
    data.open_split("imagenet", "train", prepared)


def test_a_missing_dataset_names_the_command_that_prepares_it(prepared):
  command = f"python -m experiments.prepare mit67 --source=DIR --data_dir={prepared}"
  with pytest.raises(FileNotFoundError, match=re.escape(f"`{command}`")):
    data.open_split("mit67", "train", prepared)


def test_the_fingerprint_depends_on_images_and_order(split, prepared, tmp_path):
  same = data.open_split("folder", "all", prepared).fingerprint
  assert re.fullmatch("[0-9a-f]{64}", split.fingerprint)
  others = [
    split.subset(range(20)),
    split.subset([1, 0, *range(2, 21)]),
    data.open_split("folder", "train", prepared),
  ]
  archives.folder(tmp_path / "source", ("ant", "bee", "cat"), per_class=7)
  archives.write_image(tmp_path / "source/bee/3.jpg", 99)
  data.prepare("folder", tmp_path / "source", tmp_path / "data")
  others.append(data.open_split("folder", "all", tmp_path / "data"))
  fingerprints = [split.fingerprint, *(other.fingerprint for other in others)]
  assert same == split.fingerprint
  assert len(set(fingerprints)) == len(fingerprints)
  assert split.subset(range(21)).fingerprint == split.fingerprint


def test_splits_can_be_pickled(split):
  assert pickle.loads(pickle.dumps(split))[3] == split[3]


@pytest.mark.parametrize(
  "pattern, damage",
  [
    ("*.array_record*", lambda path: path.unlink()),
    ("*.array_record*", lambda path: path.write_bytes(path.read_bytes()[:500])),
    ("metadata.json", lambda path: path.unlink()),
    ("metadata.json", lambda path: path.write_text("{")),
  ],
)
def test_damaged_datasets_are_reported(prepared, tmp_path, pattern, damage):
  shutil.copytree(prepared, tmp_path / "data")
  folder = _prepare.prepared_folder("folder", tmp_path / "data")
  for path in folder.glob(pattern):
    damage(path)
  with pytest.raises(
    OSError, match=r"is damaged \(.*\); delete it and prepare folder again"
  ):
    data.open_split("folder", "all", tmp_path / "data")[0]
