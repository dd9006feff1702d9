"""Commands: each is run as `python -m experiments.NAME`."""

import sys

# While Python looks for the module of `-m`; what the module imports takes a while.
if sys.argv[:1] == ["-m"]:
  from experiments import interrupts

  interrupts.end_at_interrupts()
