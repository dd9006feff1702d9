"""Preprocessing: from uint8 images to the input of a network."""

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike


@dataclasses.dataclass(frozen=True)
class Preprocessing:
  """A function from uint8 images to the float32 input of a network.

  Attributes:
    channels: Channel order that the network expects, `"RGB"` or `"BGR"`.
    divisor: Number that pixels from 0 to 255 are first divided by.
    mean: Values that are subtracted next, in the order of `channels`.
    std: Values that are divided by last, in the order of `channels`.
  """

  channels: Literal["RGB", "BGR"]
  divisor: float
  mean: tuple[float, float, float]
  std: tuple[float, float, float]

  def __call__(self, images: ArrayLike) -> jax.Array:
    """Return uint8 RGB images `[B, H, W, 3]` as the input of the network."""
    images = jnp.asarray(images)
    if images.dtype != jnp.uint8 or images.ndim != 4 or images.shape[-1] != 3:
      raise ValueError(
        f"`images` is {images.dtype} of shape {images.shape}, expected uint8 RGB "
        "[B, H, W, 3]; pass a single image as `image[None]`."
      )
    if self.channels == "BGR":
      images = images[..., ::-1]
    x = images.astype(jnp.float32) / self.divisor
    mean, std = (
      jnp.asarray(v, jnp.float32).reshape(1, 1, 1, 3) for v in (self.mean, self.std)
    )
    return (x - mean) / std


# Pixels from -1 to 1, for weights that start at random.
CENTERED = Preprocessing("RGB", 127.5, (1.0, 1.0, 1.0), (1.0, 1.0, 1.0))
