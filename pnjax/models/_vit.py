"""Vision transformers, including those of DINOv2.

References:
  Dosovitskiy et al., An Image is Worth 16x16 Words, ICLR 2021.
  Oquab et al., DINOv2: Learning Robust Visual Features without Supervision, TMLR 2024.
  Darcet et al., Vision Transformers Need Registers, ICLR 2024.
"""

from collections.abc import Callable
import functools

from flax import linen as nn
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
import numpy as np

from pnjax.models import _backbone
from pnjax.models._layers import Conv
from pnjax.models._pooling import at_least_float32

_MLP_RATIO = 4
# Parameter of the cubic kernel of PyTorch's bicubic interpolation.
_CUBIC = -0.75


class ViT(_backbone.Backbone):
  """Vision transformer; returns the grid of its patch tokens after the final norm.

  For images of H × W, that is `[B, H/p, W/p, d]` with patches of p × p; rows and
  columns of pixels that do not fill a patch are left out. The class token and the
  registers are not part of it. Images are `[B, H, W, 3]`, preprocessed as the weights
  require; see `pnjax.pretrained`.

  Unlike those of a rectified network, the features have both signs: pool them with
  `rectify=False` (`pooling.rectify` in a config). All Power Normalizations except
  element-wise Gamma and MaxExp accept them.

  Between the stages (`embed`, `block0`, `block1`, ..., `norm`), the class token and the
  registers fill rows of their own above the grid.

  Attributes:
    patch_size: Height and width p of a patch.
    width: Number d of channels of a token.
    depth: Number of blocks.
    num_heads: Number of heads of the attention.
    grid: Height and width, in patches, of the grid of position embeddings. For other
      image sizes, they are interpolated as in Hugging Face's `transformers`: bicubic,
      and with registers also antialiased.
    num_registers: Number of register tokens.
    layer_scale: Initial value of the factors of the branches (LayerScale), one for each
      channel; None for no factors.
    num_classes: Number of classes of `logits`, or None for a network without a
      classifier.
    epsilon: Constant that layer norm adds to the variance.
    dtype: Type of the computation; parameters are float32.
  """

  patch_size: int
  width: int
  depth: int
  num_heads: int
  grid: int
  num_registers: int = 0
  layer_scale: float | None = None
  num_classes: int | None = None
  epsilon: float = 1e-6
  dtype: DTypeLike = jnp.float32

  def setup(self):
    """Declare the embedding, the blocks and the classifier."""
    norm = functools.partial(LayerNorm, epsilon=self.epsilon, dtype=self.dtype)
    self.embed = Embedding(
      self.patch_size, self.width, self.grid, self.num_registers, self.dtype
    )
    self.blocks = [
      Block(self.num_heads, self.layer_scale, norm, self.dtype, name=f"block{i}")
      for i in range(self.depth)
    ]
    self.norm = norm()
    if self.num_classes is not None:
      self.head = nn.Dense(self.num_classes, dtype=jnp.float32)

  def stage_functions(self, train: bool) -> dict[str, Callable[[jax.Array], jax.Array]]:
    """Return the functions of `embed`, `block0`, ..., `norm`, in this order."""
    del train  # There is neither batch norm nor dropout.

    def embed(x):
      return self._join(*self.embed(x))

    def apply_block(block, x):
      extra, patches = self._split(x)
      tokens = block(jnp.concatenate([extra, _flat(patches)], axis=1))
      count = extra.shape[1]
      return self._join(tokens[:, :count], tokens[:, count:].reshape(patches.shape))

    def norm(x):
      _, patches = self._split(x)
      return self.norm(patches)

    blocks = {
      block.name: functools.partial(apply_block, block) for block in self.blocks
    }
    return {"embed": embed, **blocks, "norm": norm}

  def trainable_choices(self) -> dict[str, _backbone.TrainableLayers]:
    """Return the last quarter of the blocks with the final norm."""
    count = max(self.depth // 4, 1)
    first = self.depth - count
    blocks = (f"block{i}" for i in range(first, self.depth))
    before = f"block{first - 1}" if first else "embed"
    return {"last_stage": _backbone.TrainableLayers((*blocks, "norm"), before)}

  def logits(self, x: jax.Array, train: bool = False) -> jax.Array:
    """Return the logits of the class token in float32."""
    self.check_classifier()
    *_, last, _ = self.stages(x, train).values()
    extra, _ = self._split(last)
    return self.classify(self.norm(extra[:, 0]))

  def classify(self, features: jax.Array) -> jax.Array:
    """Return the logits of normalized tokens `[..., d]`, usually the class token."""
    return self.head(features.astype(jnp.float32))

  def _join(self, extra: jax.Array, patches: jax.Array) -> jax.Array:
    """Return the patches `[B, h, w, d]` below rows of the other tokens and zeros."""
    batch, _, columns, width = patches.shape
    rows = self._extra_rows(columns)
    padding = rows * columns - extra.shape[1]
    extra = jnp.pad(extra, [(0, 0), (0, padding), (0, 0)])
    return jnp.concatenate(
      [extra.reshape(batch, rows, columns, width), patches], axis=1
    )

  def _split(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the class token with the registers, and the patches, from `_join`."""
    rows = self._extra_rows(x.shape[2])
    return _flat(x[:, :rows])[:, : 1 + self.num_registers], x[:, rows:]

  def _extra_rows(self, columns: int) -> int:
    return -(-(1 + self.num_registers) // columns)


class ViTS16(ViT):
  """ViT-S/16; returns a feature map `[B, H/16, W/16, 384]`."""

  patch_size: int = 16
  width: int = 384
  depth: int = 12
  num_heads: int = 6
  grid: int = 14


class ViTB16(ViT):
  """ViT-B/16; returns a feature map `[B, H/16, W/16, 768]`."""

  patch_size: int = 16
  width: int = 768
  depth: int = 12
  num_heads: int = 12
  grid: int = 14


class ViTS14(ViT):
  """ViT-S/14 of DINOv2; returns a feature map `[B, H/14, W/14, 384]`."""

  patch_size: int = 14
  width: int = 384
  depth: int = 12
  num_heads: int = 6
  grid: int = 37
  layer_scale: float | None = 1e-5


class ViTB14(ViT):
  """ViT-B/14 of DINOv2; returns a feature map `[B, H/14, W/14, 768]`."""

  patch_size: int = 14
  width: int = 768
  depth: int = 12
  num_heads: int = 12
  grid: int = 37
  layer_scale: float | None = 1e-5


class Embedding(nn.Module):
  """Tokens of patches with their positions, the class token and registers."""

  patch_size: int
  width: int
  grid: int
  num_registers: int
  dtype: DTypeLike

  @nn.compact
  def __call__(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the class token with the registers, and the grid of patches."""
    size = self.patch_size
    if min(x.shape[1:3]) < size:
      raise ValueError(
        f"The images are {x.shape[1]} × {x.shape[2]}, expected at least {size} × "
        f"{size}, one patch."
      )
    patches = Conv(
      self.width, size, size, use_bias=True, dtype=self.dtype, name="patches"
    )(x)
    init = nn.initializers.normal(0.02)
    # The first position is the class token's. Registers have none.
    positions = self.param("positions", init, (1, 1 + self.grid**2, self.width))
    extra = self.param("class_token", init, (1, 1, self.width)) + positions[:, :1]
    if self.num_registers:
      shape = (1, self.num_registers, self.width)
      extra = jnp.concatenate([extra, self.param("registers", init, shape)], axis=1)
    positions = _interpolate(
      positions[:, 1:].reshape(1, self.grid, self.grid, self.width),
      patches.shape[1:3],
      antialias=self.num_registers > 0,
    )
    extra = jnp.broadcast_to(extra, (len(x), *extra.shape[1:]))
    return extra.astype(self.dtype), patches + positions.astype(self.dtype)


class Block(nn.Module):
  """Attention and a perceptron, each with a shortcut."""

  num_heads: int
  layer_scale: float | None
  norm: Callable[..., nn.Module]
  dtype: DTypeLike

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Return the tokens `[B, N, d]` after both."""
    dense = functools.partial(nn.Dense, dtype=self.dtype)
    width = x.shape[-1]
    qkv = dense(3 * width, name="qkv")(self.norm(name="norm1")(x))
    heads = qkv.reshape(*x.shape[:2], 3, self.num_heads, width // self.num_heads)
    y = _attention(*(heads[:, :, i] for i in range(3)))
    x = x + self._scaled("scale1", dense(width, name="proj")(y.reshape(x.shape)))
    y = dense(_MLP_RATIO * width, name="fc1")(self.norm(name="norm2")(x))
    y = dense(width, name="fc2")(nn.gelu(y, approximate=False))
    return x + self._scaled("scale2", y)

  def _scaled(self, name: str, y: jax.Array) -> jax.Array:
    if self.layer_scale is None:
      return y
    init = nn.initializers.constant(self.layer_scale)
    scale = self.param(name, init, (y.shape[-1],))
    return y * scale.reshape(1, 1, -1).astype(y.dtype)


class LayerNorm(nn.Module):
  """Layer norm with statistics in float32."""

  epsilon: float
  dtype: DTypeLike

  @nn.compact
  def __call__(self, x: jax.Array) -> jax.Array:
    """Normalize each token `[..., d]`."""
    x = at_least_float32(x)
    variance = jnp.var(x, axis=-1, keepdims=True)
    y = jax.nn.standardize(x, variance=variance, epsilon=self.epsilon)
    shape = (1,) * (x.ndim - 1) + x.shape[-1:]
    scale = self.param("scale", nn.initializers.ones, x.shape[-1:], jnp.float32)
    bias = self.param("bias", nn.initializers.zeros, x.shape[-1:], jnp.float32)
    return (y * scale.reshape(shape) + bias.reshape(shape)).astype(self.dtype)


def _attention(query: jax.Array, key: jax.Array, value: jax.Array) -> jax.Array:
  """Return values `[B, N, heads, c]`, averaged by a softmax in float32."""
  scores = at_least_float32(jnp.einsum("bqhc,bkhc->bhqk", query, key))
  weights = jax.nn.softmax(scores * query.shape[-1] ** -0.5).astype(value.dtype)
  return jnp.einsum("bhqk,bkhc->bqhc", weights, value)


def _flat(x: jax.Array) -> jax.Array:
  """Return a grid `[B, h, w, d]` as tokens `[B, h w, d]`."""
  return x.reshape(x.shape[0], -1, x.shape[-1])


def _interpolate(grid: jax.Array, shape: tuple[int, ...], antialias: bool) -> jax.Array:
  """Return a grid `[1, g, g, d]` in another height and width, as PyTorch does it."""
  if grid.shape[1:3] == shape:
    return grid
  if antialias:  # The kernel is another one then, that of jax.image.
    return jax.image.resize(grid, (1, *shape, grid.shape[-1]), "cubic", antialias=True)
  rows, columns = (
    _cubic_weights(grid.shape[1], size).astype(grid.dtype) for size in shape
  )
  return jnp.einsum("yi,xj,bijd->byxd", rows, columns, grid)


def _cubic_weights(size: int, new_size: int) -> np.ndarray:
  """Return the weights `[new_size, size]` of PyTorch's bicubic interpolation.

  Positions outside of the grid count as its edge.
  """
  positions = (np.arange(new_size) + 0.5) * size / new_size - 0.5
  weights = np.zeros((new_size, size))
  for offset in (-1, 0, 1, 2):
    neighbors = np.floor(positions) + offset
    indices = np.clip(neighbors, 0, size - 1).astype(int)
    weights[np.arange(new_size), indices] += _cubic(np.abs(positions - neighbors))
  return weights


def _cubic(distance: np.ndarray) -> np.ndarray:
  """Return Keys's cubic kernel for distances from 0 to 2."""
  x, a = distance, _CUBIC
  near = ((a + 2) * x - (a + 3)) * x**2 + 1
  far = a * (((x - 5) * x + 8) * x - 4)
  return np.where(x <= 1, near, far)
