"""Maps of a config's frozen backbone, from a cache that is filled where needed."""

from collections.abc import Iterator
from collections.abc import Sequence
import os

import jax
import ml_collections
import numpy as np

from pnjax import data
from pnjax import pretrained
from pnjax._cache import cache_folder
from pnjax.train import build
from pnjax.train import feature_cache
from pnjax.train import inputs
from pnjax.train import thinning
from pnjax.train.devices import Devices
from pnjax.train.progress import Progress


def cached_maps(
  config: ml_collections.ConfigDict,
  backbone: build.Backbone,
  splits: Sequence[data.Split],
  devices: Devices,
  root: str | os.PathLike | None = None,
  stage: str | None = None,
) -> list[feature_cache.CachedMaps]:
  """Returns the maps of all pictures of some splits, `[H, W, d]` or `[P, H, W, d]`.

  They have only those rows and columns that the next stage reads; see `thinning`.

  Args:
    config: of a run; its `dataset` says how pictures are fed.
    backbone: frozen, with weights.
    splits: of any dataset.
    devices: that compute what is missing.
    root: folder of all caches; `features` in `$PNJAX_CACHE` or `~/.cache/pnjax` if
      None.
    stage: of the backbone whose maps are meant; the last one if None.
  """
  if backbone.variables is None:
    raise ValueError(
      "features of a frozen backbone are to be cached, but backbone.weights is None."
    )
  cache = feature_cache.FeatureCache(
    root or cache_folder() / "features",
    _identity(config, backbone, stage),
    _shape(config, backbone, stage),
  )
  digests = np.concatenate([split.digests for split in splits])
  cache.check_space(len(cache.missing(digests)))
  for split in splits:
    missing = split.subset(cache.missing(split.digests))
    if len(missing):
      cache.write(_compute(config, backbone, missing, devices, stage))
  return [cache.read(split.digests) for split in splits]


def _identity(config, backbone, stage):
  """Returns what feature maps depend on, in fields that stay when code is renamed."""
  recipe = pretrained.RECIPES[backbone.recipe]
  dataset = config.dataset
  return {
    "weights": backbone.fingerprint,
    "architecture": recipe.architecture,
    "variant": recipe.variant,
    "epsilon": recipe.epsilon,
    "dtype": config.backbone.dtype,
    "channels": recipe.channels,
    "divisor": recipe.divisor,
    "mean": recipe.mean,
    "std": recipe.std,
    "stage": stage,
    "image_size": dataset.image_size,
    "resize": dataset.resize,
    "num_crops": dataset.num_crops,
    "resize_side": dataset.crop_side if dataset.num_crops > 1 else None,
  }


def _shape(config, backbone, stage):
  size, crops = config.dataset.image_size, config.dataset.num_crops
  images = jax.ShapeDtypeStruct((crops, size, size, 3), np.uint8)
  maps = jax.eval_shape(lambda x: _maps(backbone, backbone.variables, x, stage), images)
  return maps.shape if crops > 1 else maps.shape[1:]


def _maps(backbone, variables, images, stage):
  pictures = backbone.preprocess(images.reshape(-1, *images.shape[-3:]))
  stages = backbone.model.apply(variables, pictures, method="stages")
  stage = stage or list(stages)[-1]
  maps = thinning.thin(stages[stage], backbone.model.read_every(stage))
  return maps.reshape(*images.shape[:-3], *maps.shape[1:])


def _compute(
  config: ml_collections.ConfigDict,
  backbone: build.Backbone,
  split: data.Split,
  devices: Devices,
  stage: str | None,
) -> Iterator[tuple[list[str], np.ndarray]]:
  """Yields digests and maps, batch by batch."""
  step = devices.parallel(
    lambda variables, batch, _: ((), _maps(backbone, variables, batch["image"], stage)),
    donate=False,
  )
  variables = devices.replicate(backbone.variables)
  batches = data.eval_batches(
    split,
    batch_size=min(config.train.batch_size, len(split)),
    resize=config.dataset.resize,
    **inputs.picture_fields(config),
    num_threads=config.train.num_threads,
  )
  with Progress(0, len(split), "features") as progress:
    for batch in batches:
      index, mask = batch.pop("index"), batch["mask"]
      _, maps = step(variables, devices.shard(batch))
      maps = np.concatenate(np.asarray(maps))[: len(index)][mask]
      yield [str(split.digests[i]) for i in index[mask]], maps
      progress.advance(int(mask.sum()))
