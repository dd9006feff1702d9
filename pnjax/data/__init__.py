"""Datasets: preparation, splits, and batches for training and evaluation."""

from pnjax.data._decode import decode
from pnjax.data._decode import picture_files
from pnjax.data._pipeline import batch
from pnjax.data._pipeline import eval_batches
from pnjax.data._pipeline import eval_transform
from pnjax.data._pipeline import padded
from pnjax.data._pipeline import shuffled
from pnjax.data._pipeline import train_batches
from pnjax.data._prepare import DATASETS
from pnjax.data._prepare import prepare
from pnjax.data._split import Split
from pnjax.data._split import open_split

__all__ = [
  "DATASETS",
  "Split",
  "batch",
  "decode",
  "eval_batches",
  "eval_transform",
  "open_split",
  "padded",
  "picture_files",
  "prepare",
  "shuffled",
  "train_batches",
]
