"""Datasets as TFDS prepares them, made by builders that know nothing of pnjax."""

import contextlib
import io

import numpy as np
from PIL import Image
import tensorflow_datasets as tfds

CLASS_NAMES = ("dark", "light", "δένδρο 木")
SIZES = {"train": 12, "test": 6}


def png(label, index):
  """An image whose brightness is that of its class."""
  rng = np.random.default_rng([label, index])
  pixels = rng.integers(0, 80, (20, 24, 3), dtype=np.uint8) + np.uint8(80 * label)
  file = io.BytesIO()
  Image.fromarray(pixels).save(file, "PNG")
  return file.getvalue()


class Shades(tfds.core.GeneratorBasedBuilder):
  """A dataset with further images and labels, like `oxford_iiit_pet`."""

  VERSION = tfds.core.Version("1.2.0")
  code_path = None
  supervised_keys = ("image", "label")

  def _info(self):
    return tfds.core.DatasetInfo(
      builder=self,
      features=tfds.features.FeaturesDict(self.features()),
      supervised_keys=self.supervised_keys,
    )

  def features(self):
    return {
      "image": tfds.features.Image(shape=(None, None, 3)),
      "label": tfds.features.ClassLabel(names=CLASS_NAMES),
      "species": tfds.features.ClassLabel(num_classes=2),
      "file_name": tfds.features.Text(),
      "segmentation_mask": tfds.features.Image(shape=(None, None, 3)),
    }

  def example(self, label, index):
    image = png(label, index)
    example = {
      "image": io.BytesIO(image),
      "label": label,
      "species": 0,
      "file_name": f"{label}-{index}.png",
      "segmentation_mask": io.BytesIO(image),
    }
    return {name: example[name] for name in self.features()}

  def _split_generators(self, dl_manager):
    return {split: self._generate_examples(split) for split in SIZES}

  def _generate_examples(self, split):
    offset = 0 if split == "train" else 100
    for i in range(SIZES[split]):
      yield f"{split}-{i}", self.example(i % 3, offset + i)


class OneFeature(Shades):
  """A dataset with other names, and no supervised keys."""

  supervised_keys = None

  def features(self):
    return {
      "photo": tfds.features.Image(shape=(None, None, 3)),
      "kind": tfds.features.ClassLabel(names=CLASS_NAMES),
    }

  def example(self, label, index):
    return {"photo": io.BytesIO(png(label, index)), "kind": label}


class MultiLabel(Shades):
  """A dataset with several labels for each image."""

  supervised_keys = None

  def features(self):
    label = tfds.features.ClassLabel(names=CLASS_NAMES)
    return {
      "image": tfds.features.Image(shape=(None, None, 3)),
      "labels": tfds.features.Sequence(label),
    }

  def example(self, label, index):
    return {"image": io.BytesIO(png(label, index)), "labels": [label]}


class NoImages(Shades):
  """A dataset of numbers."""

  supervised_keys = None

  def features(self):
    return {
      "number": tfds.features.Scalar(np.int64),
      "label": tfds.features.ClassLabel(names=CLASS_NAMES),
    }

  def example(self, label, index):
    return {"number": index, "label": label}


class Unlabelled(Shades):
  """A dataset whose test images have no labels."""

  def example(self, label, index):
    return super().example(label, index) | {"label": -1 if index >= 100 else label}


class Broken(Shades):
  """A dataset with an image that is cut off."""

  def example(self, label, index):
    example = super().example(label, index)
    if index == 4:
      example["image"] = io.BytesIO(png(label, index)[:200])
    return example


class Variants(Shades):
  """A dataset with two configs."""

  BUILDER_CONFIGS = (
    tfds.core.BuilderConfig(name="full", version="2.0.0"),
    tfds.core.BuilderConfig(name="small", version="2.1.0"),
  )


def build(builder, data_dir, file_format="array_record", **options):
  """Prepares a dataset, without the reports of TFDS."""
  with contextlib.redirect_stdout(io.StringIO()):
    tfds.disable_progress_bar()
    builder(
      data_dir=data_dir, file_format=file_format, **options
    ).download_and_prepare()
