"""Power Normalizations for second-order pooling, in JAX and Flax."""

import os

# On a CPU, `jnp.linalg.eigh` runs LAPACK of SciPy, whose OpenBLAS keeps its threads
# spinning for some 25 ms after each call. They take the cores from XLA's own and
# make all that follows slower: spectral pooling as a whole by a third. This lets
# them sleep after 0.1 ms, which still bridges the steps of a decomposition. It has
# to be set before SciPy is loaded; a value of the user's own is left as it is.
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "18")

from pnjax import ops

__version__ = "0.1.0"

__all__ = ["ops"]
