import jax
import jax.numpy as jnp
import pytest

from pnjax.models import VGG16


@pytest.mark.parametrize("size, side", [(224, 14), (448, 28)])
def test_feature_map_is_not_pooled_at_the_end(size, side):
  image = jax.ShapeDtypeStruct((2, size, size, 3), jnp.float32)
  out, variables = jax.eval_shape(VGG16().init_with_output, jax.random.key(0), image)
  assert out.shape == (2, side, side, 512)
  assert sum(x.size for x in jax.tree.leaves(variables)) == 14_714_688


def test_there_are_no_logits():
  with pytest.raises(ValueError, match="no classifier"):
    VGG16().apply({"params": {}}, jnp.zeros((1, 64, 64, 3)), method="logits")
