"""A call of every function of `pnjax.ops` whose shapes depend on arrays alone."""

import jax.numpy as jnp
import numpy as np

PHI, M, MEAN = (
  np.ones(shape, np.float32) for shape in [(2, 3, 4, 5), (2, 5, 5), (2, 5)]
)
DIRECTIONS = np.ones((5, 7), np.float32)
P = np.full((2, 3), 0.1, np.float32)

# Name: arguments.
CALLS = {
  "add_residual": (M, M, 0.1),
  "append_coordinates": (PHI, np.ones((3, 4, 6), np.float32)),
  "asinhe": (M, 2.0),
  "asinhe_pool": (PHI, 2.0),
  "beta_center": (PHI, 0.5),
  "cooccurrence": (PHI,),
  "cooccurrence_forms": (PHI, DIRECTIONS),
  "equally_spaced_pivots": (5,),
  "first_order_maxexp": (MEAN, 2.0),
  "gamma": (M, 0.5),
  "gamma_pool": (PHI, 0.5),
  "gaussian_feature_map": (P, DIRECTIONS[0], 0.5),
  "gaussian_kernel_constant": (DIRECTIONS[0], 0.5),
  "l2_normalize": (M,),
  "matrix_log": (M, 0.1),
  "maxexp": (M, 2.0),
  "maxexp_pool": (PHI, 2.0),
  "newton_schulz_sqrt": (M,),
  "pade_sqrt": (M,),
  "probability_at_least_one": (P, 3),
  "probability_at_least_one_multinomial": (P, P, P, 3),
  "sigme": (M, 2.0),
  "sigme_pool": (PHI, 2.0),
  "signed_sqrt": (M,),
  "spectral_asinhe": (M, 2.0),
  "spectral_asinhe_forms": (PHI, DIRECTIONS, 2.0),
  "spectral_asinhe_pool": (PHI, 2.0),
  "spectral_gamma": (M, 0.5),
  "spectral_gamma_forms": (PHI, DIRECTIONS, 0.5),
  "spectral_gamma_pool": (PHI, 0.5),
  "spectral_map": (M, jnp.tanh),
  "spectral_map_pool": (PHI, jnp.tanh),
  "spectral_maxexp": (M, 2.0),
  "spectral_maxexp_forms": (PHI, DIRECTIONS, 2),
  "spectral_maxexp_pool": (PHI, 2),
  "spectral_sigme": (M, 2.0),
  "spectral_sigme_forms": (PHI, DIRECTIONS, 2.0),
  "spectral_sigme_pool": (PHI, 2.0),
  "suggest_first_order_parameters": (MEAN,),
  "suggest_parameters": (PHI,),
  "trace_compensate": (M, M, 0.5),
  "triu_unvectorize": (np.ones((2, 15), np.float32),),
  "triu_vectorize": (M,),
}
