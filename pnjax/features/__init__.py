"""Feature maps of a frozen backbone, extracted once and kept on disk."""

from pnjax.features._cache import CachedFeatureMaps
from pnjax.features._cache import FeatureCache
from pnjax.features._extract import cached_feature_maps
from pnjax.features._extract import feature_maps
from pnjax.features._subsampling import subsample
from pnjax.features._subsampling import upsample

__all__ = [
  "CachedFeatureMaps",
  "FeatureCache",
  "cached_feature_maps",
  "feature_maps",
  "subsample",
  "upsample",
]
