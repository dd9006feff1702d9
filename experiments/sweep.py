r"""Sweeps one field of a config, by cross-validation on training images.

  python -m experiments.sweep --config=experiments/configs/flower102.py:sop_sc_sigme \
    --param=pooling.beta --values=0,0.2,0.4,0.6,0.8,1.0 --workdir=runs/sweep

Test images are not used. Every value is evaluated on the same folds of the training
split, on cached features of the frozen backbone (see `experiments.table`). `suggested`
among the values stands for the value from `pnjax.ops.suggest_parameters`.

With `--finetune`, each value and fold is a training run, and `--param` may be any field
that is a number:

  python -m experiments.sweep --config=experiments/configs/folder.py --finetune \
    --param=classifier.dropout --values=0,0.25,0.5 --folds=3 --workdir=runs/dropout

Values that are stored are not computed again. Writes `sweep.md`, `sweep.json` and
`sweep.png`, and prints the value that a config should take over.
"""

from absl import flags

from experiments import cli

_CONFIG = cli.define_config()
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder for the sweep.")
_PARAM = flags.DEFINE_string("param", None, "Field, such as pooling.beta.")
_VALUES = flags.DEFINE_list("values", None, "Numbers, or suggested.")
_FOLDS = flags.DEFINE_integer("folds", 5, "Number of folds of the training images.")
_FINETUNE = flags.DEFINE_bool("finetune", False, "Train as the config says.")
_CACHE = flags.DEFINE_string("cache", None, "Folder of cached features.")


@cli.reports_errors()
def main() -> int:
  """Run the command; return its exit status."""
  # Imported here, so that --help and a mistyped flag are answered at once.
  from experiments.studies import parameter_sweep
  from pnjax import runtime

  runtime.keep_freed_memory()
  workdir = _WORKDIR.value
  sweep = parameter_sweep.run_sweep(
    _CONFIG.value,
    workdir,
    param=_PARAM.value,
    values=[parameter_sweep.parse_value(text) for text in _VALUES.value if text],
    num_folds=_FOLDS.value,
    finetune=_FINETUNE.value,
    command=cli.command_line("experiments.sweep"),
    cache=_CACHE.value,
  )
  print(
    f"best: {sweep['param']} = {sweep['best']:g}; written to {workdir}/sweep.md, "
    ".json and .png"
  )
  return 0


if __name__ == "__main__":
  cli.run(main, required=["config", "workdir", "param", "values"])
