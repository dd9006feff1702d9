import jax
import pytest

from benchmarks import memory
from pnjax import config as config_lib

KEPT = "kept for the backward pass"


@pytest.fixture(scope="module")
def task():
  config = config_lib.get_config()
  config.backbone.name = "tiny_resnet"
  config.backbone.dtype = "bfloat16"
  return memory.make_task(config, num_classes=3)


@pytest.fixture(scope="module")
def counted(task):
  return memory.count(task, batch=2, size=32)


def test_count(task, counted):
  state, _ = memory.arguments(task, batch=2, size=32)
  num_params = sum(p.size for p in jax.tree.leaves(state.trainable))
  assert counted["parameters"] == counted["gradients"] == 4 * num_params
  # RMSprop has one average per parameter, and counts its steps.
  assert 0 <= counted["optimizer state"] - 4 * num_params < 100
  assert counted["images"] == 2 * 32 * 32 * 3


def test_inputs_of_all_convolutions_are_kept(counted):
  # In bfloat16: images, stem before and after max-pooling, and both blocks.
  sizes = [32**2 * 3, (16**2 + 8**2) * 8, 8**2 * (8 + 8 + 32), 4**2 * (16 + 16)]
  assert counted[KEPT] >= 2 * 2 * sum(sizes)


def test_only_what_is_kept_grows_with_the_batch(task, counted):
  large = memory.count(task, batch=200, size=32)
  for name in ("parameters", "gradients", "optimizer state"):
    assert counted[name] == large[name]
  assert 50 * counted[KEPT] <= large[KEPT] <= 100 * counted[KEPT]


@pytest.mark.slow
def test_compiled(task, counted):
  num_bytes = memory.compiled(task, 2, 32, "cpu")
  arguments = ("parameters", "optimizer state", "images")
  assert num_bytes >= sum(counted[name] for name in arguments)
  assert num_bytes <= 3 * sum(counted.values())


def test_the_page_has_a_column_for_each_case(monkeypatch, capsys):
  tiny = (3, {"backbone.name": "tiny_resnet"})
  monkeypatch.setattr(memory, "CASES", {"one": tiny, "other": tiny})
  monkeypatch.setattr(memory.absent_tpus, "has_compiler", lambda: False)
  memory.print_memory(batch=2, size=32)
  header, _, *rows = capsys.readouterr().out.splitlines()
  assert header == "| GB | one | other |"
  assert [row.count("|") for row in rows] == [4] * 6
  assert rows[-1].startswith("| **counted, in all** |")
