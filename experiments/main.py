"""Trains and evaluates a network from a config.

  python -m experiments.main --config=experiments/configs/demo.py --workdir=runs/demo

The text after a colon names the method, as in `--config=.../fmd.py:sop_sc_sigme`. Any
field can be set: `--config.train.num_epochs=5`. A run that was stopped or killed
continues when the same command is given again.
"""

from absl import flags

from experiments import cli

_CONFIG = cli.define_config()
_WORKDIR = flags.DEFINE_string("workdir", None, "Folder of the run.")
_COORDINATOR = flags.DEFINE_string(
  "coordinator",
  None,
  "With several hosts: address:port of host 0, or auto on a cluster that JAX knows.",
)
_NUM_HOSTS = flags.DEFINE_integer("num_hosts", None, "Number of hosts.", lower_bound=1)
_HOST = flags.DEFINE_integer("host", None, "Index of this host, from 0.", lower_bound=0)


@cli.reports_errors()
def main() -> int:
  """Run the command; return its exit status."""
  # Imported here, so that --help and a mistyped flag are answered at once.
  from pnjax import runs
  from pnjax import runtime
  from pnjax import train

  config, workdir = _CONFIG.value, _WORKDIR.value
  runtime.keep_freed_memory()
  with runtime.connect_hosts(_COORDINATOR.value, _NUM_HOSTS.value, _HOST.value):
    result = train.train_and_evaluate(config, workdir)
  status = cli.INTERRUPTED if result is None else 0
  if not runtime.Devices().is_first:
    return status
  if result is None:
    print(f"stopped; the same command continues. Everything is in {workdir}")
    return status
  runs.draw_curves(workdir)
  print(f"{cli.describe_result(result)}\neverything is in {workdir}")
  return status


if __name__ == "__main__":
  cli.run(main, required=["config", "workdir"])
