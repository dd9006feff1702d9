"""Makes a table of the paper on a dataset, with our figures and the paper's.

  python -m experiments.table --config=experiments/configs/fmd.py --workdir=runs/table

Every row is a pooling layer on cached features of the frozen backbone, with ridge
regression on pooled vectors, whose regularisation is chosen by leave-one-out on the
training images. `--finetune` also trains as the configs say, and shows three
classifiers side by side: that on frozen features, the trained softmax layer, and ridge
regression on the learned features (refit).

`--config=.../flower102.py:fop,alexnet` chooses the other backbone (the method before
the comma does not matter). Rows that are stored in the workdir are not computed again,
and the table shows them all. Writes `table.md`, `table.json` and `table.png`.
"""

from collections.abc import Sequence

from absl import flags
from ml_collections import config_flags

from experiments import cli
from experiments.studies import paper

_CONFIG = cli.define_config()
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder for rows and tables.")
_ROWS = flags.DEFINE_list(
  "rows", list(paper.ROWS), f"Methods. Also known: {', '.join(paper.OTHERS)}."
)
_SPLITS = flags.DEFINE_list(
  "splits",
  None,
  "Splits to train on, each evaluated on its counterpart. By default that of the "
  "config; for FMD all of its kind (half_1_train to half_10_train).",
)
_CACHE = flags.DEFINE_string("cache", None, "Folder of cached features.")
_CLASSIFIER = flags.DEFINE_enum(
  "classifier",
  "refit",
  ["refit", "softmax"],
  "With --finetune: classifier whose gains are shown.",
)
_FINETUNE = flags.DEFINE_bool("finetune", False, "Train as the config says as well.")


@cli.reports_errors()
def main() -> int:
  """Run the command; return its exit status."""
  # Imported here, so that --help and a mistyped flag are answered at once.
  from experiments.studies import comparison
  from experiments.studies import method_configs
  from experiments.studies import table_files
  from pnjax import runtime

  runtime.keep_freed_memory()
  flag = flags.FLAGS["config"]
  table = comparison.make_table(
    method_configs.method_configs(flag),
    _WORKDIR.value,
    rows=_ROWS.value,
    splits=_SPLITS.value,
    finetune=_FINETUNE.value,
    classifier=_CLASSIFIER.value,
    cache=_CACHE.value,
    overrides=config_flags.get_override_values(flag),
    command_of=_command,
  )
  print(f"\n{table_files.markdown(table)}")
  print(f"written to {_WORKDIR.value}/table.md, .json and .png")
  return 0


def _command(rows: Sequence[str]) -> str:
  """Return this command for all rows that the table shows."""
  return cli.command_line("experiments.table", {"rows": ",".join(rows)})


if __name__ == "__main__":
  cli.run(main, required=["config", "workdir"])
