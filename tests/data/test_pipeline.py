import itertools

import numpy as np
import pytest

from pnjax import data
from pnjax.data import _split
from pnjax.data import _transforms

SIZE = 16


def train(split, count, *, start=0, **kwargs):
  """Returns training batches, beginning at step `start`."""
  arguments = {"batch_size": 6, "image_size": SIZE, "seed": 0, "num_threads": 2}
  batches = data.train_batches(split, **(arguments | kwargs))
  return list(itertools.islice(iter(batches), start, start + count))


def assert_same_batches(actual, expected):
  assert len(actual) == len(expected)
  for a, b in zip(actual, expected, strict=True):
    assert a.keys() == b.keys()
    for key in a:
      np.testing.assert_array_equal(a[key], b[key])


def by_content(batch):
  """Returns the images of a batch with their labels, sorted."""
  pairs = zip(batch["image"], batch["label"], strict=True)
  return sorted((image.tobytes(), int(label)) for image, label in pairs)


@pytest.fixture
def reads(monkeypatch):
  """Positions of all images that are read."""
  positions = []
  getitem = _split.Split.__getitem__

  def record(split, index):
    positions.append(int(index))
    return getitem(split, index)

  monkeypatch.setattr(_split.Split, "__getitem__", record)
  return positions


def test_shapes_and_types_of_training_batches(split):
  (batch,) = train(split, 1)
  assert set(batch) == {"image", "label"}
  assert batch["image"].shape == (6, SIZE, SIZE, 3)
  assert batch["image"].dtype == np.uint8
  assert batch["label"].shape == (6,)
  assert batch["label"].dtype == np.int32


def test_each_epoch_has_each_image_once_in_another_order(split):
  """Without augmentation; 21 images are three and a half batches of six."""
  batches = train(split, 14, augment="none")  # 84 images, four epochs.
  images = [image.tobytes() for batch in batches for image in batch["image"]]
  everything = {
    _transforms.squash(data.decode(e["image"]), SIZE).tobytes() for e in split
  }
  epochs = [images[i : i + 21] for i in range(0, 84, 21)]
  for epoch in epochs:
    assert len(epoch) == 21
    assert set(epoch) == everything
  assert len({tuple(epoch) for epoch in epochs}) == 4


def test_labels_belong_to_their_images(split):
  label = {
    _transforms.squash(data.decode(e["image"]), SIZE).tobytes(): e["label"]
    for e in split
  }
  for batch in train(split, 4, augment="none"):
    assert [label[x.tobytes()] for x in batch["image"]] == batch["label"].tolist()


@pytest.mark.parametrize("augment", ["crop", "flip"])
def test_batches_depend_on_seed_and_step_only(split, augment):
  expected = train(split, 8, augment=augment)
  for num_threads in (1, 4):
    batches = train(split, 8, augment=augment, num_threads=num_threads)
    assert_same_batches(batches, expected)
  other = train(split, 8, augment=augment, seed=1)
  assert any(
    (a["label"] != b["label"]).any() for a, b in zip(other, expected, strict=True)
  )


def test_augmentation_differs_between_epochs(split):
  one = split.subset([0])
  batches = train(one, 20, batch_size=1, augment="crop")
  assert len({batch["image"].tobytes() for batch in batches}) == 20
  batches = train(one, 20, batch_size=1, augment="flip")
  whole = _transforms.squash(data.decode(one[0]["image"]), SIZE)
  seen = {batch["image"].tobytes() for batch in batches}
  assert seen == {whole.tobytes(), np.ascontiguousarray(whole[:, ::-1]).tobytes()}


@pytest.mark.parametrize("shard_count", [2, 3])
def test_shards_are_parts_of_the_same_batches(split, shard_count):
  whole = train(split, 8)
  parts = [
    train(split, 8, shard_index=i, shard_count=shard_count) for i in range(shard_count)
  ]
  for step, batch in enumerate(whole):
    joined = {key: np.concatenate([part[step][key] for part in parts]) for key in batch}
    assert parts[0][step]["label"].shape == (6 // shard_count,)
    assert by_content(joined) == by_content(batch)


def test_resuming_is_exact(split):
  expected = train(split, 9)
  iterator = iter(
    data.train_batches(split, batch_size=6, image_size=SIZE, seed=0, num_threads=2)
  )
  for _ in range(5):
    next(iterator)
  state = iterator.get_state()
  assert_same_batches([next(iterator) for _ in range(4)], expected[5:])
  other = iter(
    data.train_batches(split, batch_size=6, image_size=SIZE, seed=0, num_threads=1)
  )
  other.set_state(state)
  assert_same_batches([next(other) for _ in range(4)], expected[5:])


def test_resuming_does_not_read_skipped_images(split, reads):
  arguments = {"batch_size": 6, "image_size": SIZE, "seed": 0, "num_threads": 1}
  iterator = iter(data.train_batches(split, **arguments))
  next(iterator)
  state = iterator.get_state()
  far = {key: value * 10_000 for key, value in state.items()}
  resumed = iter(data.train_batches(split, **arguments))
  resumed.set_state(far)
  reads.clear()
  next(resumed)
  # A batch, and what the threads of both iterators prefetch, out of 60,000 images.
  assert 6 <= len(reads) < 100


def test_evaluation_has_each_image_once_in_order(split):
  batches = list(data.eval_batches(split, batch_size=8, image_size=SIZE))
  assert [b["mask"].sum() for b in batches] == [8, 8, 5]
  for batch in batches:
    assert batch["image"].shape == (8, SIZE, SIZE, 3)
    assert {k: v.dtype for k, v in batch.items()} == {
      "image": np.uint8,
      "label": np.int32,
      "mask": np.bool_,
      "index": np.int32,
    }
  index = np.concatenate([b["index"] for b in batches])
  label = np.concatenate([b["label"] for b in batches])
  image = np.concatenate([b["image"] for b in batches])
  assert index.tolist() == [*range(21), -1, -1, -1]
  np.testing.assert_array_equal(label[:21], split.labels)
  for i, example in enumerate(split):
    expected = _transforms.squash(data.decode(example["image"]), SIZE)
    np.testing.assert_array_equal(image[i], expected)
  assert not image[21:].any()


@pytest.mark.parametrize("count", [1, 8, 16, 17, 21])
@pytest.mark.parametrize("shard_count", [2, 4])
def test_shards_evaluate_each_image_once(split, count, shard_count):
  shards = [
    list(
      data.eval_batches(
        split.subset(range(count)),
        batch_size=8,
        image_size=SIZE,
        shard_index=i,
        shard_count=shard_count,
      )
    )
    for i in range(shard_count)
  ]
  assert {len(shard) for shard in shards} == {-(-count // 8)}
  batches = [batch for shard in shards for batch in shard]
  assert {batch["image"].shape[0] for batch in batches} == {8 // shard_count}
  seen = np.concatenate([batch["index"][batch["mask"]] for batch in batches])
  assert sorted(seen.tolist()) == list(range(count))


def test_evaluation_on_the_center(split):
  batch = next(
    iter(data.eval_batches(split, batch_size=1, image_size=8, resize="center"))
  )
  expected = _transforms.center(data.decode(split[0]["image"]), 8)
  np.testing.assert_array_equal(batch["image"][0], expected)


def test_twelve_crops(split):
  arguments = {"batch_size": 3, "image_size": 28, "num_crops": 12, "resize_side": 32}
  (first, *_) = data.eval_batches(split, **arguments)
  assert first["image"].shape == (3, 12, 28, 28, 3)
  expected = _transforms.twelve_crops(data.decode(split[1]["image"]), 28, 32)
  np.testing.assert_array_equal(first["image"][1], expected)
  batch = next(iter(data.train_batches(split, seed=0, **arguments)))
  assert batch["image"].shape == (3, 12, 28, 28, 3)
  everything = [
    _transforms.twelve_crops(data.decode(e["image"]), 28, 32).tobytes() for e in split
  ]
  for image, label in zip(batch["image"], batch["label"], strict=True):
    assert split.labels[everything.index(image.tobytes())] == label


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    ({"augment": "mixup"}, "'mixup', expected one of 'crop', 'flip', 'none'"),
    ({"augment": "resize"}, "^`augment` is 'resize', expected 'flip', its new name.$"),
    ({"num_crops": 10}, "10, expected one of 1, 12"),
    ({"num_crops": 12, "image_size": 448}, "`resize_side` is 256, expected at least"),
    ({"image_size": 0}, "`image_size` is 0, expected 1 or more"),
    ({"shard_count": 4}, "6, expected a multiple of `shard_count`, 4"),
    ({"shard_count": 2, "shard_index": 2}, "2, expected from 0 to 1"),
  ],
)
def test_wrong_arguments(split, arguments, message):
  with pytest.raises(ValueError, match=message):
    train(split, 1, **arguments)


def test_wrong_arguments_of_evaluation(split):
  with pytest.raises(ValueError, match="'fit', expected one of 'squash', 'center'"):
    data.eval_batches(split, batch_size=1, image_size=8, resize="fit")


def test_an_empty_split_is_refused(split):
  with pytest.raises(ValueError, match="the split has no images"):
    train(split.subset([]), 1)


def views(split, view, **kwargs):
  arguments = {"batch_size": 7, "image_size": SIZE, "view": view, "seed": 3}
  batches = data.eval_batches(split, **(arguments | kwargs))
  return np.concatenate([batch["image"][batch["mask"]] for batch in batches])


def test_views_are_random_crops_that_stay_the_same(split):
  first, second = views(split, 1), views(split, 2)
  np.testing.assert_array_equal(views(split, 0), views(split, 0, seed=4))
  np.testing.assert_array_equal(first, views(split, 1, batch_size=3))
  # They belong to the image, wherever it is.
  positions = np.array([4, 2])
  np.testing.assert_array_equal(views(split.subset(positions), 1), first[positions])
  for other in (views(split, 0), second, views(split, 1, seed=4)):
    assert np.mean(np.any(first != other, axis=(1, 2, 3))) > 0.9


def test_twelve_crops_have_views(split):
  crops = views(split, 1, num_crops=12, resize_side=24)
  assert crops.shape == (len(split), 12, SIZE, SIZE, 3)
  # The sixth is the whole of a random part, which is also the view of one crop.
  single = views(split, 1)
  for crop, image in zip(crops, single, strict=True):
    np.testing.assert_array_equal(crop[5], image)
