import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import features
from pnjax import models


@pytest.mark.parametrize("size", [32, 40])  # 8 and 10 rows; subsampled, 4 and 5.
@pytest.mark.parametrize("variant,kept", [("v1", 0.25), ("v1.5", 1.0)])
def test_later_stages_do_not_notice(rng, size, variant, kept):
  model = models.TinyResNet(variant=variant)
  x = rng.standard_normal((2, size, size, 3)).astype(np.float32)
  variables = model.init(jax.random.key(0), x)
  stages = model.apply(variables, x, method="stages")
  stride = model.stride_after("layer1")
  subsampled = features.subsample(stages["layer1"], stride)
  assert subsampled.size == kept * stages["layer1"].size
  later = model.apply(
    variables, features.upsample(subsampled, stride), after="layer1", method="stages"
  )
  np.testing.assert_array_equal(later["layer2"], stages["layer2"])


def test_odd_sizes(rng):
  feature_maps = rng.standard_normal((3, 7, 5, 2)).astype(np.float32)
  upsampled = features.upsample(jnp.asarray(features.subsample(feature_maps, 2)), 2)
  assert upsampled.shape == feature_maps.shape
  np.testing.assert_array_equal(upsampled[:, ::2, ::2], feature_maps[:, ::2, ::2])
  assert np.count_nonzero(upsampled) == 3 * 4 * 3 * 2


@pytest.mark.parametrize(
  "stage,stride", [("stem", 1), ("layer1", 2), ("layer3", 2), ("layer4", 1)]
)
def test_strides_of_resnet_50(stage, stride):
  assert models.ResNet50(variant="v1").stride_after(stage) == stride
  assert models.ResNet50(variant="v1.5").stride_after(stage) == 1


def test_strides_of_alexnet():
  assert models.AlexNet().stride_after("conv3") == 1
