import pathlib
import subprocess
import sys

import pnjax

PROGRAM = """
import sys
import jax, numpy

def packages():
  return {name.partition(".")[0] for name in sys.modules}

before = packages()
import pnjax.ops
print(*packages() - before)
"""


def test_ops_imports_jax_and_numpy_only():
  """In particular not jaxtyping, which only type checkers need."""
  added = subprocess.run(
    [sys.executable, "-c", PROGRAM],
    cwd=pathlib.Path(pnjax.__file__).parents[1],
    capture_output=True,
    text=True,
    check=True,
  ).stdout.split()
  assert set(added) - sys.stdlib_module_names == {"pnjax"}
