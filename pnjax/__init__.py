"""Power Normalizations for second-order pooling, in JAX and Flax."""

import os

# On a CPU, `jnp.linalg.eigh` calls SciPy's LAPACK, whose OpenBLAS threads keep spinning
# for about 25 ms after each call. They take the cores from XLA's threads and slow down
# everything that follows: spectral pooling as a whole by a third. With this setting
# they sleep after 0.1 ms, which still bridges the steps of a decomposition. It has to
# be set before SciPy is loaded, and does not replace a value that the user has set.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "18")

from pnjax import ops

__version__ = "0.2.0.dev0"

__all__ = ["ops"]
