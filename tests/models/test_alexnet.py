import jax
import jax.numpy as jnp
import pytest

from pnjax.models import AlexNet


@pytest.mark.parametrize("size, side", [(224, 6), (336, 9), (448, 13)])
def test_map(size, side):
  image = jax.ShapeDtypeStruct((2, size, size, 3), jnp.float32)
  out, _ = jax.eval_shape(AlexNet().init_with_output, jax.random.key(0), image)
  assert out.shape == (2, side, side, 256)


def test_bfloat16_keeps_parameters_in_float32():
  model = AlexNet(dtype=jnp.bfloat16)
  image = jax.ShapeDtypeStruct((1, 224, 224, 3), jnp.float32)
  out, variables = jax.eval_shape(model.init_with_output, jax.random.key(0), image)
  assert out.dtype == jnp.bfloat16
  assert {leaf.dtype for leaf in jax.tree.leaves(variables)} == {jnp.dtype("float32")}


def test_logits_need_pictures_of_224():
  image = jax.ShapeDtypeStruct((1, 256, 256, 3), jnp.float32)
  with pytest.raises(ValueError, match="need pictures of 224"):
    jax.eval_shape(AlexNet(num_classes=10).init, jax.random.key(0), image)


def test_logits_need_a_classifier():
  image = jnp.zeros((1, 64, 64, 3))
  variables = AlexNet().init(jax.random.key(0), image)
  with pytest.raises(ValueError, match="no classifier"):
    AlexNet().apply(variables, image, method="logits")
