"""Extraction of feature maps, for the cache of a config's frozen backbone."""

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import functools
import os
from typing import Any
import zlib

import jax
import ml_collections
import numpy as np

from pnjax import data
from pnjax import pretrained
from pnjax import runtime
from pnjax.features import _subsampling
from pnjax.features._cache import CachedFeatureMaps
from pnjax.features._cache import FeatureCache


def cached_feature_maps(
  config: ml_collections.ConfigDict,
  backbone: pretrained.BackboneSpec,
  splits: Sequence[data.Split],
  devices: runtime.Devices,
  root: str | os.PathLike | None = None,
  stage: str | None = None,
  views: Sequence[int] | None = None,
) -> list[CachedFeatureMaps]:
  """Return the feature maps of all images, and extract those that are not cached.

  A feature map is `[H, W, d]`, or `[P, H, W, d]` for P crops. If it is not the last
  one, it has only the rows and columns that the next stage reads; see `subsample`.

  Args:
    config: Run config.
    backbone: Frozen backbone with weights.
    splits: Splits of images.
    devices: Devices that compute missing feature maps.
    root: Folder of all caches; `features` in `$PNJAX_CACHE` or `~/.cache/pnjax` if
      None.
    stage: Stage of the backbone to extract; the last one if None.
    views: View of each split, as in `data.eval_batches`; 0 for all if None.

  Returns:
    Feature maps of each split.
  """
  if backbone.variables is None:
    raise ValueError(
      "feature maps of a frozen backbone can only be cached if it has weights, but "
      "backbone.weights is None."
    )
  views = [0] * len(splits) if views is None else views
  extract = functools.partial(_extract, backbone, stage)
  shape = _shape(config, backbone, extract)
  caches = {
    view: FeatureCache(
      root or runtime.cache_folder() / "features",
      _cache_key(config, backbone, stage, view),
      shape,
    )
    for view in sorted(set(views))
  }
  _announce(caches, splits, views, devices)
  for split, view in zip(splits, views, strict=True):
    missing = _missing(caches[view], split, devices)
    if len(missing):
      batches = _extract_batches(
        config, backbone.variables, extract, missing, devices, view
      )
      _write(caches[view], batches, devices)
      _missing(caches[view], split, devices)  # All hosts have read them.
  return [
    caches[view].read(split.digests) for split, view in zip(splits, views, strict=True)
  ]


def _missing(
  cache: FeatureCache, split: data.Split, devices: runtime.Devices
) -> data.Split:
  """Return the images without a feature map, which must be the same on all hosts."""
  missing = split.subset(cache.missing(split.digests))
  digest = np.array([zlib.crc32("".join(missing.digests).encode())], np.uint32)
  if len(np.unique(devices.gather(digest))) > 1:
    raise ValueError(
      f"the hosts find different feature maps in {cache.folder}, expected one folder "
      "that all of them share; PNJAX_CACHE sets it."
    )
  return missing


def _write(
  cache: FeatureCache,
  batches: Iterator[tuple[list[str], np.ndarray]],
  devices: runtime.Devices,
) -> None:
  """Write feature maps on the first host, while all hosts compute them."""
  if devices.is_first:
    cache.write(batches)
  else:
    for _ in batches:
      pass
  if devices.num_hosts > 1:
    devices.barrier()
    cache.refresh()


def _announce(
  caches: Mapping[int, FeatureCache],
  splits: Sequence[data.Split],
  views: Sequence[int],
  devices: runtime.Devices,
) -> None:
  """Print what is going to be computed, and raise OSError if the disk is too small."""
  count = 0
  for view, cache in caches.items():
    own = [split.digests for split, v in zip(splits, views, strict=True) if v == view]
    count += len(cache.missing(np.concatenate(own)))
  if not count:
    return
  size = cache.check_space(count)
  if devices.is_first:
    of_views = f" in {len(caches)} views" if len(caches) > 1 else ""
    print(
      f"features: {runtime.counted(count, 'feature map')} to compute{of_views}, "
      f"{size / 1e9:.2g} GB in {cache.folder.parent}",
      flush=True,
    )


def feature_maps(
  config: ml_collections.ConfigDict,
  backbone: pretrained.BackboneSpec,
  split: data.Split,
) -> jax.Array:
  """Return the last feature maps of a few images, without a cache.

  Args:
    config: Run config.
    backbone: Backbone; its weights are random if it has none.
    split: Images.
  """
  (batch,) = data.eval_batches(
    split,
    batch_size=len(split),
    resize=config.dataset.resize,
    **data.image_options(config.dataset),
  )
  images = batch["image"]
  variables = backbone.variables
  if variables is None:
    shape = (1, *images.shape[-3:])
    variables = backbone.model.init(jax.random.key(config.seed), np.zeros(shape, "f4"))
  extract = jax.jit(functools.partial(_extract, backbone, None, variables))
  # One image at a time: with 12 crops each, the activations of all would be large.
  return jax.numpy.concatenate([extract(image[None]) for image in images])


def _extract(
  backbone: pretrained.BackboneSpec,
  stage: str | None,
  variables: Mapping[str, Any],
  images: jax.Array,
) -> jax.Array:
  """Return the feature maps of a stage for uint8 images `[..., H, W, 3]`."""
  x = backbone.preprocess(images)
  stages: Any = backbone.model.apply(
    variables, x.reshape(-1, *x.shape[-3:]), method="stages"
  )
  stage = stage or list(stages)[-1]
  maps = _subsampling.subsample(stages[stage], backbone.model.stride_after(stage))
  return maps.reshape(*images.shape[:-3], *maps.shape[1:])


def _cache_key(
  config: ml_collections.ConfigDict,
  backbone: pretrained.BackboneSpec,
  stage: str | None,
  view: int,
) -> dict[str, Any]:
  """Return everything that feature maps depend on, except the image.

  The names of these fields are part of the format of the cache: they stay the same
  when a class or a field of the code is renamed.
  """
  recipe = (
    pretrained.recipe_without_weights(config.backbone.name)
    if backbone.recipe is None  # Its weights are those of a run that started at random.
    else pretrained.RECIPES[backbone.recipe]
  )
  preprocessing, dataset = recipe.preprocessing, config.dataset
  # Crops and flips as in `data.eval_batches`.
  augmented = {"view": view, "seed": config.seed} if view else {}
  return {
    "weights": backbone.fingerprint,
    "architecture": recipe.architecture,
    "variant": recipe.variant,
    "epsilon": recipe.epsilon,
    "dtype": config.backbone.dtype,
    "channels": preprocessing.channels,
    "divisor": preprocessing.divisor,
    "mean": preprocessing.mean,
    "std": preprocessing.std,
    "stage": stage,
    "image_size": dataset.image_size,
    "resize": dataset.resize,
    "num_crops": dataset.num_crops,
    "resize_side": dataset.resize_side if dataset.num_crops > 1 else None,
    **augmented,
  }


def _shape(
  config: ml_collections.ConfigDict,
  backbone: pretrained.BackboneSpec,
  extract: Callable[..., jax.Array],
) -> tuple[int, ...]:
  """Return the shape of the feature map of an image."""
  size, num_crops = config.dataset.image_size, config.dataset.num_crops
  images = jax.ShapeDtypeStruct((num_crops, size, size, 3), np.uint8)
  shape = jax.eval_shape(extract, backbone.variables, images).shape
  return shape if num_crops > 1 else shape[1:]


def _extract_batches(
  config: ml_collections.ConfigDict,
  variables: Mapping[str, Any],
  extract: Callable[..., jax.Array],
  split: data.Split,
  devices: runtime.Devices,
  view: int,
) -> Iterator[tuple[list[str], np.ndarray]]:
  """Yield digests of images and their feature maps, batch by batch.

  Each host computes a share of each batch, and gets all of it.
  """
  step = devices.parallelize(
    lambda variables, batch, psum: ((), extract(variables, batch["image"])),
    donate=False,
  )
  variables = devices.replicate(variables)
  num_hosts = devices.num_hosts
  batches = data.eval_batches(
    split,
    batch_size=min(config.train.batch_size, -(-len(split) // num_hosts) * num_hosts),
    resize=config.dataset.resize,
    **data.image_options(config.dataset),
    num_threads=config.train.num_threads,
    view=view,
    seed=config.seed,
    shard_index=devices.host,
    shard_count=num_hosts,
  )
  label = f"features, view {view + 1}" if view else "features"
  quiet = not devices.is_first
  with runtime.Progress(0, len(split), label, quiet) as progress:
    for batch in batches:
      index = batch.pop("index")
      _, maps = step(variables, devices.shard(batch))
      maps = np.concatenate(np.asarray(maps))[: len(index)]
      maps, index = devices.gather_examples(maps, index)
      yield [str(split.digests[i]) for i in index], maps
      progress.advance(len(index))
