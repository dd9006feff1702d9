import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pnjax import models
from pnjax.train import thinning


@pytest.mark.parametrize("size", [32, 40])  # Maps of 8 and 10 rows; thinned, 4 and 5.
@pytest.mark.parametrize("variant,kept", [("v1", 0.25), ("v1.5", 1.0)])
def test_later_stages_do_not_notice(rng, size, variant, kept):
  model = models.TinyResNet(variant=variant)
  x = rng.standard_normal((2, size, size, 3)).astype(np.float32)
  variables = model.init(jax.random.key(0), x)
  stages = model.apply(variables, x, method="stages")
  every = model.read_every("layer1")
  thinned = thinning.thin(stages["layer1"], every)
  assert thinned.size == kept * stages["layer1"].size
  later = model.apply(
    variables, thinning.fill(thinned, every), after="layer1", method="stages"
  )
  np.testing.assert_array_equal(later["layer2"], stages["layer2"])


def test_an_odd_map(rng):
  maps = rng.standard_normal((3, 7, 5, 2)).astype(np.float32)
  filled = thinning.fill(jnp.asarray(thinning.thin(maps, 2)), 2)
  assert filled.shape == maps.shape
  np.testing.assert_array_equal(filled[:, ::2, ::2], maps[:, ::2, ::2])
  assert np.count_nonzero(filled) == 3 * 4 * 3 * 2


@pytest.mark.parametrize(
  "stage,every", [("stem", 1), ("layer1", 2), ("layer3", 2), ("layer4", 1)]
)
def test_what_the_stages_of_resnet_50_read(stage, every):
  assert models.ResNet50(variant="v1").read_every(stage) == every
  assert models.ResNet50(variant="v1.5").read_every(stage) == 1


def test_alexnet_reads_everything():
  assert models.AlexNet().read_every("conv3") == 1
