"""Closed-form classifiers on pooled vectors: exact kernel, ridge regression, refit."""

from pnjax.probe._cross_validation import cross_validate
from pnjax.probe._frozen import FrozenFeatures
from pnjax.probe._frozen import classify
from pnjax.probe._frozen import kernel_of_config
from pnjax.probe._frozen import load_frozen_features
from pnjax.probe._frozen import suggest_parameters
from pnjax.probe._kernel import MAX_ROWS
from pnjax.probe._kernel import pooled_kernel
from pnjax.probe._refit import LinearClassifier
from pnjax.probe._refit import Refit
from pnjax.probe._refit import refit
from pnjax.probe._ridge import RidgeClassifier
from pnjax.probe._ridge import fit_ridge
from pnjax.probe._transformer import PooledFeatures
from pnjax.probe._vectors import PooledVectors

__all__ = [
  "MAX_ROWS",
  "FrozenFeatures",
  "LinearClassifier",
  "PooledFeatures",
  "PooledVectors",
  "Refit",
  "RidgeClassifier",
  "classify",
  "cross_validate",
  "fit_ridge",
  "kernel_of_config",
  "load_frozen_features",
  "pooled_kernel",
  "refit",
  "suggest_parameters",
]
