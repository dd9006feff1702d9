"""Pure functions on arrays: features in, normalized second-order matrices out.

`phi` is `[..., N, d]`, N feature vectors with channels last; `m` is `[..., d, d]`;
leading axes are batch axes. Scalar parameters may be Python numbers or traced arrays,
so they can be trained. The result has the dtype of the input; half precision is
computed in float32. Equations, tables and remarks are numbered as in Koniusz, Zhang
and Porikli, A Deeper Look at Power Normalizations, CVPR 2018.
"""

from pnjax.ops._baselines import l2_normalize
from pnjax.ops._baselines import matrix_log
from pnjax.ops._baselines import newton_schulz_sqrt
from pnjax.ops._baselines import pade_sqrt
from pnjax.ops._baselines import signed_sqrt
from pnjax.ops._cooccurrence import append_coordinates
from pnjax.ops._cooccurrence import beta_center
from pnjax.ops._cooccurrence import cooccurrence
from pnjax.ops._cooccurrence import tensor_feature_map
from pnjax.ops._corrections import add_residual
from pnjax.ops._corrections import trace_compensate
from pnjax.ops._elementwise import asinhe
from pnjax.ops._elementwise import first_order_maxexp
from pnjax.ops._elementwise import gamma
from pnjax.ops._elementwise import maxexp
from pnjax.ops._elementwise import sigme
from pnjax.ops._elementwise_pool import asinhe_pool
from pnjax.ops._elementwise_pool import gamma_pool
from pnjax.ops._elementwise_pool import maxexp_pool
from pnjax.ops._elementwise_pool import sigme_pool
from pnjax.ops._forms import cooccurrence_forms
from pnjax.ops._forms import spectral_asinhe_forms
from pnjax.ops._forms import spectral_gamma_forms
from pnjax.ops._forms import spectral_maxexp_forms
from pnjax.ops._forms import spectral_sigme_forms
from pnjax.ops._kernels import equally_spaced_pivots
from pnjax.ops._kernels import gaussian_feature_map
from pnjax.ops._kernels import gaussian_kernel_constant
from pnjax.ops._kernels import spatial_coordinates
from pnjax.ops._power_norms import POWER_NORMS
from pnjax.ops._power_norms import PowerNorm
from pnjax.ops._probability import probability_at_least_one
from pnjax.ops._probability import probability_at_least_one_multinomial
from pnjax.ops._spectral import spectral_asinhe
from pnjax.ops._spectral import spectral_gamma
from pnjax.ops._spectral import spectral_maxexp
from pnjax.ops._spectral import spectral_sigme
from pnjax.ops._spectral_map import spectral_map
from pnjax.ops._spectral_map import spectral_map_pool
from pnjax.ops._spectral_pool import spectral_asinhe_pool
from pnjax.ops._spectral_pool import spectral_gamma_pool
from pnjax.ops._spectral_pool import spectral_maxexp_pool
from pnjax.ops._spectral_pool import spectral_sigme_pool
from pnjax.ops._suggest import suggest_first_order_parameters
from pnjax.ops._suggest import suggest_parameters
from pnjax.ops._triangle import triu_unvectorize
from pnjax.ops._triangle import triu_vectorize

__all__ = [
  "POWER_NORMS",
  "PowerNorm",
  "add_residual",
  "append_coordinates",
  "asinhe",
  "asinhe_pool",
  "beta_center",
  "cooccurrence",
  "cooccurrence_forms",
  "equally_spaced_pivots",
  "first_order_maxexp",
  "gamma",
  "gamma_pool",
  "gaussian_feature_map",
  "gaussian_kernel_constant",
  "l2_normalize",
  "matrix_log",
  "maxexp",
  "maxexp_pool",
  "newton_schulz_sqrt",
  "pade_sqrt",
  "probability_at_least_one",
  "probability_at_least_one_multinomial",
  "sigme",
  "sigme_pool",
  "signed_sqrt",
  "spatial_coordinates",
  "spectral_asinhe",
  "spectral_asinhe_forms",
  "spectral_asinhe_pool",
  "spectral_gamma",
  "spectral_gamma_forms",
  "spectral_gamma_pool",
  "spectral_map",
  "spectral_map_pool",
  "spectral_maxexp",
  "spectral_maxexp_forms",
  "spectral_maxexp_pool",
  "spectral_sigme",
  "spectral_sigme_forms",
  "spectral_sigme_pool",
  "suggest_first_order_parameters",
  "suggest_parameters",
  "tensor_feature_map",
  "trace_compensate",
  "triu_unvectorize",
  "triu_vectorize",
]
