"""Power Normalizations for second-order pooling, in JAX and Flax."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

# On a CPU, `jnp.linalg.eigh` calls SciPy's LAPACK, whose OpenBLAS threads keep spinning
# for about 25 ms after each call. They take the cores from XLA's threads and slow down
# everything that follows: spectral pooling as a whole by a third. With this setting
# they sleep after 0.1 ms, which still bridges the steps of a decomposition. It has to
# be set before SciPy is loaded, and does not replace a value that the user has set.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "18")

from pnjax import _cpu_threads
from pnjax import ops

if TYPE_CHECKING:
  from pnjax import runs

# Several CPU devices would hang in spectral functions without it.
_cpu_threads.reserve()

__version__ = "0.2.0.dev0"

__all__ = ["load", "ops"]


def load(
  workdir: str | os.PathLike, classifier: str | None = None
) -> runs.TrainedModel:
  """Load the trained model of a run.

  >>> trained = load("runs/demo")  # doctest: +SKIP
  >>> trained.predict(images)  # doctest: +SKIP

  Args:
    workdir: Folder of the run.
    classifier: "refit", "softmax", or None for the one that the run prefers.

  Returns:
    The model, whose `predict`, `features` and `pooled` take uint8 images.
  """
  # Imported here, since `pnjax.ops` alone needs neither Flax nor datasets.
  from pnjax import runs

  return runs.load(workdir, classifier)
