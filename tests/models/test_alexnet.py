import jax
import jax.numpy as jnp
import pytest

from pnjax.models import AlexNet


def images(batch, size):
  return jax.ShapeDtypeStruct((batch, size, size, 3), jnp.float32)


@pytest.mark.parametrize("size, side", [(224, 6), (336, 9), (448, 13)])
def test_shape_of_the_last_feature_map(size, side):
  init = AlexNet().init_with_output
  out, _ = jax.eval_shape(init, jax.random.key(0), images(2, size))
  assert out.shape == (2, side, side, 256)


def test_bfloat16_keeps_parameters_in_float32():
  model = AlexNet(dtype=jnp.bfloat16)
  init = model.init_with_output
  out, variables = jax.eval_shape(init, jax.random.key(0), images(1, 224))
  assert out.dtype == jnp.bfloat16
  assert {leaf.dtype for leaf in jax.tree.leaves(variables)} == {jnp.dtype("float32")}


def test_logits_need_images_of_224():
  with pytest.raises(ValueError, match="need images of 224"):
    jax.eval_shape(AlexNet(num_classes=10).init, jax.random.key(0), images(1, 256))


def test_logits_need_a_classifier():
  with pytest.raises(ValueError, match="no classifier"):
    AlexNet().apply({"params": {}}, jnp.zeros((1, 64, 64, 3)), method="logits")
