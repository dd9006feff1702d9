"""The choice between ways to compute a spectral Power Normalization."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
import functools
from typing import TYPE_CHECKING
from typing import Any

from jax import lax

from pnjax.ops import _products

if TYPE_CHECKING:
  from jax import Array
  from jaxtyping import Float


def check(
  route: str,
  products: _products.Products | None,
  parameter: Mapping[str, Any],
  known: Sequence[str] = ("auto", "gram", "direct", "matmul"),
) -> None:
  """Raise ValueError if there is no such route, or not for this function.

  Args:
    route: Name of the route.
    products: Function by products alone, if there is one.
    parameter: Name and value of the function's parameter.
    known: Names of the routes.
  """
  if route not in known:
    raise ValueError(
      f"`route` is {route!r}, expected one of {', '.join(map(repr, known))}; only "
      "MaxExp also has 'products'."
    )
  if route == "matmul" and products is None:
    ((name, value),) = parameter.items()
    raise ValueError(
      f"`{name}` is {value}, for which there is no route 'matmul', only for SigmE "
      "(with `max_eta_prime` if `eta_prime` is traced), for Gamma with power=0.5 and "
      "for MaxExp with a Python integer `eta`; use route='auto'."
    )


def choose(
  route: str,
  products: _products.Products | None,
  decompose: Callable[..., Array],
  by_products: Callable[..., Array] | None,
) -> Callable[..., Array]:
  """Return the function that computes a route.

  Args:
    route: A checked route.
    products: Function by products alone, if there is one.
    decompose: The computation by a decomposition.
    by_products: The computation by products; None without `products`.
  """
  if products is None or by_products is None or route not in ("auto", "matmul"):
    return reverse_mode(decompose)
  if route == "matmul" or products.fastest_on_cpu:
    return by_products
  # Decided by the platform that the program is compiled for.
  return reverse_mode(
    functools.partial(lax.platform_dependent, cpu=decompose, default=by_products)
  )


def takes_gram(route: str, x: Float[Array, "*batch N d"]) -> bool:
  """Whether a route decomposes the N×N Gram matrix, and not the d×d one."""
  num_vectors, dim = x.shape[-2:]
  return route == "gram" or (route != "direct" and num_vectors < dim)


def reverse_mode(compute: Callable[..., Array]) -> Callable[..., Array]:
  """Return the function with an explanation of the error that forward mode causes."""

  @functools.wraps(compute)
  def wrapper(*args):
    try:
      return compute(*args)
    except TypeError as error:
      if "forward-mode" not in str(error):
        raise
      raise TypeError(
        "functions of eigenvalues have derivatives in reverse mode only (`jax.grad`, "
        "`jax.vjp`); for forward mode (`jax.jvp`, `jax.linearize`, `jax.jacfwd`), pool "
        "with route='matmul', which SigmE, Gamma with power=0.5 and MaxExp with a "
        "Python integer `eta` have."
      ) from None

  return wrapper
