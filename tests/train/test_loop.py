import json
import os
import signal

from flax import traverse_util
import jax
import numpy as np
import pytest

from experiments.configs import methods
from pnjax import data
from pnjax import train
from pnjax.train import build
from pnjax.train import locks
from pnjax.train import loop
from pnjax.train import records
from pnjax.train import restore
from pnjax.train import step as step_lib
from tests.train.runs import assert_same_losses
from tests.train.runs import assert_same_run
from tests.train.runs import parameters


def run(config, workdir, num_devices=1):
  return train.train_and_evaluate(config, workdir, jax.devices()[:num_devices])


def test_run_writes_everything(config, tmp_path):
  result = run(config, tmp_path)
  assert result == json.loads((tmp_path / "result.json").read_text())
  assert 0 <= result["top1"] <= 1
  assert result["num_examples"] == 15
  assert set(result["per_class"]) == {"dark", "light", "striped"}
  np.testing.assert_allclose(
    result["mean_per_class"], np.mean(list(result["per_class"].values()))
  )
  assert {"loss", "wall_seconds", "versions", "git_revision"} <= set(result)
  assert (tmp_path / "classes.txt").read_text().split() == ["dark", "light", "striped"]
  assert json.loads((tmp_path / "config.json").read_text())["train"]["batch_size"] == 8
  steps = [(r["step"], r["split"]) for r in records.read(tmp_path)]
  assert steps == [
    (2, "train"),
    (3, "train"),
    (3, "test"),
    (4, "train"),
    (6, "train"),
    (6, "test"),
  ]
  assert all("second" not in key for r in records.read(tmp_path) for key in r)
  predictions = np.load(tmp_path / "predictions.npz")
  assert np.mean(predictions["label"] == predictions["prediction"]) == result["top1"]


def test_a_finished_run_is_not_run_again(config, tmp_path, monkeypatch):
  result = run(config, tmp_path)
  monkeypatch.setattr(loop.Run, "start", None)
  assert run(config, tmp_path) == result


def test_devices_do_not_change_the_losses(config, tmp_path):
  config.train.batch_size = 7  # Padded and masked on two devices.
  run(config, tmp_path / "one", num_devices=1)
  run(config, tmp_path / "two", num_devices=2)
  assert_same_losses(tmp_path / "one", tmp_path / "two", rtol=1e-5)


@pytest.mark.slow
def test_accumulation_does_not_change_the_losses(config, tmp_path):
  run(config, tmp_path / "whole")
  config.train.accumulate = 3  # Eight examples are padded to nine.
  run(config, tmp_path / "parts")
  assert_same_losses(tmp_path / "whole", tmp_path / "parts", rtol=1e-5)


# In the midst, and where it evaluates.
@pytest.mark.parametrize(
  "step,classifier_rate",
  [
    pytest.param(1, 0.0, marks=pytest.mark.slow),
    pytest.param(3, 0.0, marks=pytest.mark.slow),
    (1, 0.1),
  ],
)
def test_a_stopped_run_continues_to_the_same_numbers(
  config, tmp_path, monkeypatch, step, classifier_rate
):
  config.optim.classifier_rate = classifier_rate
  run(config, tmp_path / "whole")
  with monkeypatch.context() as patch:
    _signal_at(patch, step)
    assert run(config, tmp_path / "parts") is None
  assert not (tmp_path / "parts" / "result.json").exists()
  assert run(config, tmp_path / "parts") is not None
  assert_same_run(tmp_path / "parts", tmp_path / "whole")


def _signal_at(patch, step):
  advance = loop.Run.advance

  def advance_and_signal(self, progress):
    advance(self, progress)
    if self.step == step:
      os.kill(os.getpid(), signal.SIGTERM)

  patch.setattr(loop.Run, "advance", advance_and_signal)


@pytest.mark.slow
def test_a_run_that_breaks_anywhere_continues_to_the_same_numbers(
  config, tmp_path, monkeypatch
):
  run(config, tmp_path / "whole")
  config_of_parts = config.copy_and_resolve_references()
  broken = 0
  while True:
    with monkeypatch.context() as patch:
      _break_after(patch, calls=broken)
      try:
        run(config_of_parts, tmp_path / "parts")
        break
      except ZeroDivisionError:
        broken += 1
  assert broken > 4
  assert_same_run(tmp_path / "parts", tmp_path / "whole")


def _break_after(patch, calls):
  """Makes a run fail at one of the places where it does something."""
  count = 0
  for name in ("advance", "record", "evaluate", "save", "finish"):
    method = getattr(loop.Run, name)

    def failing(self, *args, method=method):
      nonlocal count
      out = method(self, *args)
      count += 1
      if count == calls + 1:
        raise ZeroDivisionError
      return out

    patch.setattr(loop.Run, name, failing)


def test_a_step_is_traced_once(config, tmp_path, monkeypatch):
  traces = []
  train_step = step_lib.train_step
  monkeypatch.setattr(
    step_lib, "train_step", lambda *args: traces.append(1) or train_step(*args)
  )
  run(config, tmp_path)
  assert len(traces) == 1


def test_a_loss_that_is_not_finite_stops_the_run(config, tmp_path):
  config.optim.name = "sgd"
  config.optim.final_learning_rate = 1e30  # Of the second epoch, from step 4 on.
  message = r"not finite at step 5; .*last good checkpoint is kept \(step 3\)"
  with pytest.raises(train.NonFiniteLossError, match=message):
    run(config, tmp_path)
  tree = parameters(tmp_path)
  assert tree["step"] == 3
  for name, x in tree.items():
    assert np.isfinite(x).all(), name


def test_another_config_does_not_continue_a_run(config, tmp_path):
  run(config, tmp_path)
  config.optim.learning_rate = 0.5
  config.train.num_threads = 2  # Does not matter.
  with pytest.raises(ValueError, match=r"optim.learning_rate was 0.001 and is 0.5\."):
    run(config, tmp_path)


@pytest.mark.parametrize(
  ("field", "value", "message"),
  [
    ("dataset.name", "flowers", "flowers"),
    ("dataset.split", "trian", "trian"),
    ("dataset.num_classes", 7, "num_classes is 7, but folder has 3"),
    ("backbone.name", "vgg", "backbone.name is 'vgg'"),
    ("backbone.weights", "no/such/file.npz", "no/such/file.npz"),
    ("head.order", 3, "head.order is 3"),
    ("head.power_norm", "sigmoid", "sigmoid"),
    ("head.beta", 1.5, "beta"),
    ("optim.name", "lion", "optim.name is 'lion'"),
    ("train.freeze", "some", "train.freeze is 'some'"),
    ("train.batch_size", 0, "train.batch_size is 0"),
    ("train.checkpoint_every", 0, "train.checkpoint_every is 0"),
    ("dataset.test_split", "train[:4]", r"4 pictures of train are in train\[:4\], too"),
    ("dataset.split", "all", "pictures of all are in test, too"),
    ("dataset.split", "train[:0]", "the split has no pictures"),
    ("dataset.test_split", "test[:0]", "the split has no pictures"),
    ("dataset.image_size", 0, "dataset.image_size is 0, expected 1 or more"),
    ("dataset.num_crops", 3, "num_crops"),
    ("dataset.resize", "stretch", "stretch"),
    ("dataset.augment", "rotate", "rotate"),
    ("optim.decay", 2.0, "optim.decay is 2.0"),
    ("optim.momentum", 3.0, "optim.momentum is 3.0"),
    ("optim.weight_decay", -1.0, "optim.weight_decay is -1.0"),
    ("optim.clip_norm", -1.0, "optim.clip_norm is -1.0"),
    ("train.label_smoothing", 2.0, "train.label_smoothing is 2.0"),
  ],
)
def test_bad_fields_are_named_before_anything_is_compiled(
  config, tmp_path, monkeypatch, field, value, message
):
  monkeypatch.setattr(loop.Run, "start", None)
  group, name = field.split(".")
  with config.ignore_type():
    config[group][name] = value
  with pytest.raises((ValueError, OSError), match=message) as error:
    run(config, tmp_path / "new")
  assert "\n" not in str(error.value)
  assert not (tmp_path / "new").exists()


def test_pictures_that_are_too_small_are_said(config, tmp_path):
  config.backbone.name = "alexnet"
  config.dataset.image_size = 8
  with pytest.raises(ValueError, match="image_size is 8, which is too small for alex"):
    run(config, tmp_path / "new")
  assert not (tmp_path / "new").exists()


def test_a_workdir_that_cannot_be_written_to(config, tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(OSError, match=r"workdir .*file/run cannot be written to"):
    run(config, tmp_path / "file" / "run")


def test_a_second_process_in_the_same_workdir_is_refused(config, tmp_path):
  with locks.hold(tmp_path), pytest.raises(OSError, match="another process is writing"):
    run(config, tmp_path)


def test_a_run_does_not_continue_on_other_pictures(config, tmp_path, monkeypatch):
  run(config, tmp_path)
  monkeypatch.setattr(data.Split, "fingerprint", "of other pictures")
  with pytest.raises(ValueError, match="holds a run on other pictures"):
    run(config, tmp_path)


def test_a_run_does_not_continue_from_other_weights(config, tmp_path, monkeypatch):
  run(config, tmp_path)
  monkeypatch.setattr(build.Backbone, "fingerprint", "of other weights")
  with pytest.raises(ValueError, match="holds a run from other weights"):
    run(config, tmp_path)


def test_a_damaged_config_is_said(config, tmp_path):
  (tmp_path / "config.json").write_text("{")
  with pytest.raises(ValueError, match=r"config\.json is damaged"):
    run(config, tmp_path)


def test_frozen_layers_stay(config, tmp_path):
  config.train.freeze = "last_two_convs"
  config.train.num_epochs = 1
  run(config, tmp_path)
  tree = parameters(tmp_path)
  fresh = build.initialize(
    restore.load(tmp_path).model, build.without_weights(config.backbone), 32, seed=0
  )
  for path, x in traverse_util.flatten_dict(fresh["params"], sep=".").items():
    is_frozen = f"frozen/{path}" in tree
    trained = tree[f"frozen/{path}" if is_frozen else f"learned/{path}"]
    if is_frozen:
      np.testing.assert_array_equal(trained, x, err_msg=path)
    elif path.endswith("kernel"):
      assert np.any(trained != x), path
  assert "frozen/backbone.conv1.kernel" in tree
  assert "learned/backbone.layer2.block0.conv3.kernel" in tree


@pytest.mark.parametrize(
  "method",
  [
    "sop_sc_spec_gamma",
    *(
      pytest.param(method, marks=pytest.mark.slow)
      for method in ("baseline", "fop_asinhe", "sop_maxexp")
    ),
  ],
)
def test_methods_run_and_suggest_what_is_left_open(config, tmp_path, method, capsys):
  config.head.eta_prime = None
  config.head.alpha = None
  config.head.num_pivots = 0
  methods.apply(config, method)
  config.train.num_epochs = 1
  result = run(config, tmp_path)
  assert np.isfinite(result["loss"])
  suggested = json.loads((tmp_path / "model.json").read_text())["suggested"]
  expected = {
    "fop_asinhe": {"gamma_prime"},
    "sop_maxexp": {"eta"},
    "sop_sc_spec_gamma": {"alpha"},
  }
  assert set(suggested) == expected.get(method, set())
  said = capsys.readouterr().out
  assert all(f"{name} = {value:.4g}" in said for name, value in suggested.items())


@pytest.mark.slow
def test_half_precision_and_batch_statistics(config, tmp_path):
  config.backbone.dtype = "bfloat16"
  config.backbone.batch_statistics = True
  result = run(config, tmp_path, num_devices=2)
  assert np.isfinite(result["loss"])
  mean = parameters(tmp_path)["batch_stats/backbone/bn1/mean"]
  assert np.any(mean != 0)


@pytest.mark.parametrize(
  "freeze",
  ["backbone", pytest.param("last_two_convs", marks=pytest.mark.slow)],
)
def test_cached_features_give_the_same_numbers(
  frozen_config, tmp_path, monkeypatch, freeze
):
  monkeypatch.setenv("PNJAX_CACHE", str(tmp_path / "cache"))
  frozen_config.train.freeze = freeze
  run(frozen_config, tmp_path / "pictures")
  frozen_config.train.cache_features = True
  run(frozen_config, tmp_path / "maps")
  # The cache has half precision, of which RMSprop's first steps make more.
  assert_same_losses(tmp_path / "pictures", tmp_path / "maps", rtol=5e-3)


def test_only_a_frozen_backbone_can_be_cached(config, tmp_path):
  config.train.cache_features = True
  with pytest.raises(ValueError, match=r"train.freeze is 'all', expected one of back"):
    run(config, tmp_path)
