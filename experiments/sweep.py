r"""Tries values of one parameter of a head, by cross-validation on training pictures.

  python -m experiments.sweep --config=experiments/configs/flower102.py:sop_sc_sigme \
    --param=head.beta --values=0,0.2,0.4,0.6,0.8,1.0 --workdir=runs/sweep

Test pictures are not looked at. Every value is evaluated on the same folds of the
training split, on cached features of the frozen backbone (see `experiments.table`).
`suggested` among the values stands for what `pnjax.ops.suggest_parameters` says.
Values that are done are not computed again. Writes `sweep.md`, `sweep.json`,
`sweep.png`, and says which value a config should take over.
"""

from absl import flags
from absl import logging

from experiments import cli

_CONFIG = cli.define_config()
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder for the outcome.")
_PARAM = flags.DEFINE_string("param", None, "Field of the config, such as head.beta.")
_VALUES = flags.DEFINE_list("values", None, "Numbers, or suggested.")
_FOLDS = flags.DEFINE_integer("folds", 5, "Number of folds of the training pictures.")
_CACHE = flags.DEFINE_string("cache", None, "Folder of cached features.")


def main() -> int:
  """Runs the command; returns its exit status."""
  # Imported here, so that --help and a mistyped flag are answered at once.
  from experiments import sweeps
  from experiments import variants
  from experiments import weights
  from pnjax.train import devices

  logging.set_verbosity(logging.WARNING)
  devices.keep_freed_memory()
  try:
    variants.fetch_weights(_CONFIG.value)
    sweeps.make(
      _CONFIG.value,
      _WORKDIR.value,
      param=_PARAM.value,
      values=[sweeps.parse(text) for text in _VALUES.value if text],
      num_folds=_FOLDS.value,
      cache=_CACHE.value,
    )
  except (ImportError, OSError, ValueError, weights.Unavailable) as error:
    return cli.fail(error)
  return 0


if __name__ == "__main__":
  cli.run(main, required=["config", "workdir", "param", "values"])
