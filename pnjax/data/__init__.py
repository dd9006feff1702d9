"""Datasets: downloads, preparation, splits, and batches."""

from pnjax.data._decode import decode
from pnjax.data._decode import image_files
from pnjax.data._downloads import OFFICIAL_ARCHIVES
from pnjax.data._downloads import fetch_archive
from pnjax.data._pipeline import batch
from pnjax.data._pipeline import eval_batches
from pnjax.data._pipeline import eval_transform
from pnjax.data._pipeline import image_options
from pnjax.data._pipeline import padded
from pnjax.data._pipeline import shuffled
from pnjax.data._pipeline import train_batches
from pnjax.data._prepare import DATASETS
from pnjax.data._prepare import prepare
from pnjax.data._random_splits import stratified_folds
from pnjax.data._split import Split
from pnjax.data._split import evaluation_split
from pnjax.data._split import open_split
from pnjax.data._split import open_splits

__all__ = [
  "DATASETS",
  "OFFICIAL_ARCHIVES",
  "Split",
  "batch",
  "decode",
  "eval_batches",
  "eval_transform",
  "evaluation_split",
  "fetch_archive",
  "image_files",
  "image_options",
  "open_split",
  "open_splits",
  "padded",
  "prepare",
  "shuffled",
  "stratified_folds",
  "train_batches",
]
