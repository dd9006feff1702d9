"""Closed-form classifiers on the pooled vectors of frozen features."""

from pnjax.probe._cross_validation import cross_validate
from pnjax.probe._cross_validation import stratified_folds
from pnjax.probe._frozen import FrozenFeatures
from pnjax.probe._frozen import classify
from pnjax.probe._frozen import kernel_of_config
from pnjax.probe._frozen import load_frozen_features
from pnjax.probe._frozen import suggest_parameters
from pnjax.probe._kernel import MAX_IMAGES
from pnjax.probe._kernel import pooled_kernel
from pnjax.probe._ridge import RidgeClassifier
from pnjax.probe._ridge import fit_ridge

__all__ = [
  "MAX_IMAGES",
  "FrozenFeatures",
  "RidgeClassifier",
  "classify",
  "cross_validate",
  "fit_ridge",
  "kernel_of_config",
  "load_frozen_features",
  "pooled_kernel",
  "stratified_folds",
  "suggest_parameters",
]
