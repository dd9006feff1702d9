"""Makes a table of the paper on a dataset, ours beside its own.

  python -m experiments.table --config=experiments/configs/fmd.py --workdir=runs/table

Every row is a pooling layer on cached features of the frozen backbone, with a ridge
classifier on the exact kernel of pooled vectors; its regularisation is chosen by
leaving one out of the training pictures. From more than 10,000 training pictures a
softmax layer learns instead, as `experiments.main` trains it.

`--config=.../flower102.py:fop,alexnet` takes the other backbone (the method before the
comma does not matter); `--finetune` trains end to end. Rows that are done are not
computed again. Writes `table.md`, `table.json` and `table.png`.
"""

from absl import flags
from absl import logging
from ml_collections import config_flags

from experiments import cli
from experiments import paper

_CONFIG = cli.define_config()
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder for rows and tables.")
_ROWS = flags.DEFINE_list(
  "rows", list(paper.ROWS), f"Methods. Known besides: {', '.join(paper.OTHERS)}."
)
_SPLITS = flags.DEFINE_list(
  "splits",
  None,
  "Splits to learn from, each evaluated on its counterpart. By default that of the "
  "config; for FMD all of its kind (half_1_train to half_10_train).",
)
_CACHE = flags.DEFINE_string("cache", None, "Folder of cached features.")
_FINETUNE = flags.DEFINE_bool("finetune", False, "Train end to end instead.")


def main() -> int:
  """Runs the command; returns its exit status."""
  # Imported here, so that --help and a mistyped flag are answered at once.
  from experiments import tables
  from experiments import variants
  from experiments import weights
  from pnjax import train
  from pnjax.train import devices

  logging.set_verbosity(logging.WARNING)
  devices.keep_freed_memory()
  try:
    flag = flags.FLAGS["config"]
    tables.make(
      variants.of(flag),
      _WORKDIR.value,
      rows=_ROWS.value,
      splits=_SPLITS.value,
      finetune=_FINETUNE.value,
      cache=_CACHE.value,
      overrides=config_flags.get_override_values(flag),
    )
  except (
    ImportError,
    OSError,
    ValueError,
    weights.Unavailable,
    train.NonFiniteLossError,
  ) as error:
    return cli.fail(error)
  return 0


if __name__ == "__main__":
  cli.run(main, required=["config", "workdir"])
