"""The compilation for absent accelerators, on devices that are here."""

import jax
import pytest

from benchmarks import accelerators
from benchmarks import memory
from pnjax import ops

TEXT = """
  %psum.3 = f32[64,10]{0,1:T(8,128)} all-reduce(%fusion), channel_id=1
  %x = (f32[64]{0}, bf16[2,3]{1,0}, pred[]) all-reduce-start(%a, %b), channel_id=2
  %gather = s32[8]{0} all-gather(%c), channel_id=3
  %not = f32[5]{0} fusion(%all-reduce), kind=kLoop
"""


def test_collectives():
  assert accelerators.collectives(TEXT) == {
    "all-reduce": (2, 4 * 640 + 4 * 64 + 2 * 6 + 1),
    "all-gather": (1, 4 * 8),
  }


@pytest.mark.slow
def test_step_on_two_devices(monkeypatch):
  monkeypatch.setattr(ops, "POWER_NORMS", dict(ops.POWER_NORMS))
  workload = accelerators.Workload("tiny_resnet", batch=4, size=32, num_classes=3)
  case = accelerators.CASES["spectral SigmE, matmul"]
  task = accelerators.make_task(case, workload)
  one, two = (
    accelerators.compiled_step(task, workload, jax.devices()[:count])
    for count in (1, 2)
  )
  _, num_bytes = two.collectives["all-reduce"]
  shapes, _ = memory.arguments(task, workload.batch, workload.size)
  gradients = sum(4 * leaf.size for leaf in jax.tree.leaves(shapes.trainable))
  # Biases that are added to each other have one gradient, which is sent once.
  assert 0.95 * gradients <= num_bytes <= 1.05 * gradients
  assert two.flops < one.flops
  pooling = accelerators.compiled_pooling(task, workload, jax.devices()[:1])
  assert 0 < pooling.flops < one.flops
