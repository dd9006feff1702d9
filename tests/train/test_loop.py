import json
import os
import signal

from flax import traverse_util
import jax
import numpy as np
import pytest

from experiments.configs import methods
from pnjax import config as config_lib
from pnjax import data
from pnjax import ops
from pnjax import pretrained
from pnjax import runs
from pnjax import runtime
from pnjax import train
from pnjax.train import _checks
from pnjax.train import _loop
from pnjax.train import _step
from tests.small_runs import assert_same_losses
from tests.small_runs import assert_same_run
from tests.small_runs import parameters
from tests.small_runs import run


def test_a_run_writes_everything(config, tmp_path):
  result = run(config, tmp_path)
  assert result == json.loads((tmp_path / "result.json").read_text())
  assert result["num_examples"] == 15
  assert result["num_steps"] == 6
  assert result["evaluated_on"] == "test"
  labels, predictions = runs.read_predictions(tmp_path)
  np.testing.assert_array_equal(np.bincount(labels), [5, 5, 5])
  right = labels == predictions
  assert result["top1"] == np.mean(right)
  assert result["per_class"] == {
    name: np.mean(right[labels == i])
    for i, name in enumerate(("dark", "light", "striped"))
  }
  np.testing.assert_allclose(
    result["mean_per_class"], np.mean(list(result["per_class"].values()))
  )
  assert {"loss", "wall_seconds", "versions", "git_revision"} <= set(result)
  assert runs.read_class_names(tmp_path) == ["dark", "light", "striped"]
  assert runs.read_config(tmp_path).train.batch_size == 8
  steps = [(r["step"], r["split"]) for r in runs.read_records(tmp_path)]
  assert steps == [
    (2, "train"),
    (3, "train"),
    (3, "test"),
    (4, "train"),
    (6, "train"),
    (6, "test"),
  ]
  assert all("second" not in key for r in runs.read_records(tmp_path) for key in r)
  records = runs.read_records(tmp_path)
  for split in ("train", "test"):
    losses = [r["loss"] for r in records if r["split"] == split]
    assert losses[-1] < losses[0] < 1.1  # Logits start at zero: log 3.


def test_a_finished_run_is_not_run_again(config, tmp_path, monkeypatch):
  result = run(config, tmp_path)
  monkeypatch.setattr(_loop, "_describe_model_once", None)
  assert run(config, tmp_path) == result


def test_a_usual_batch_may_be_larger_than_a_small_dataset(config, tmp_path, capsys):
  config.train.batch_size = config_lib.get_config().train.batch_size
  config.train.num_epochs = 1
  assert run(config, tmp_path)["num_steps"] == 1
  line = "folder: 24 images to train on (train), 15 to evaluate on (test), 3 classes; "
  assert capsys.readouterr().out.startswith(f"{line}1 epoch on 1 × ")


def test_without_training_a_batch_may_have_any_size(config, data_dir):
  split = data.open_split("folder", "train", data_dir)
  config.train.batch_size = 33
  with pytest.raises(ValueError, match="batch_size is 33, but train has 24 images"):
    _checks.check_batch_size(config, split)
  config.train.num_epochs = 0
  _checks.check_batch_size(config, split)


def test_devices_do_not_change_the_losses(config, tmp_path):
  config.train.batch_size = 7  # Padded and masked on two devices.
  run(config, tmp_path / "one", num_devices=1)
  run(config, tmp_path / "two", num_devices=2)
  assert_same_losses(tmp_path / "one", tmp_path / "two", rtol=1e-5)


@pytest.mark.slow
def test_microbatches_do_not_change_the_losses(config, tmp_path):
  run(config, tmp_path / "whole")
  config.train.num_microbatches = 3  # Eight examples are padded to nine.
  run(config, tmp_path / "parts")
  assert_same_losses(tmp_path / "whole", tmp_path / "parts", rtol=1e-5)


# Within an epoch, and where it evaluates.
@pytest.mark.parametrize("step", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_a_stopped_run_continues_to_the_same_numbers(
  config, tmp_path, monkeypatch, step
):
  run(config, tmp_path / "whole")
  with monkeypatch.context() as patch:
    _signal_at(patch, step)
    assert run(config, tmp_path / "parts") is None
  assert not (tmp_path / "parts" / "result.json").exists()
  assert run(config, tmp_path / "parts") is not None
  assert_same_run(tmp_path / "parts", tmp_path / "whole")


def _signal_at(patch, step):
  take_step, count = _loop._take_step, 0

  def take_step_and_signal(*args):
    nonlocal count
    count += 1
    state = take_step(*args)
    if count == step:
      os.kill(os.getpid(), signal.SIGTERM)
    return state

  patch.setattr(_loop, "_take_step", take_step_and_signal)


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
  """Makes a run fail after the given number of things that it does."""
  count = 0
  names = (
    "_take_step",
    "_record",
    "_report",
    "_save",
    "refit_classifier",
    "write_result",
  )
  for name in names:
    function = getattr(_loop, name)

    def failing(*args, function=function):
      nonlocal count
      out = function(*args)
      count += 1
      if count == calls + 1:
        raise ZeroDivisionError
      return out

    patch.setattr(_loop, name, failing)


def test_a_step_is_traced_once(config, tmp_path, monkeypatch):
  traces = []
  train_step = _step.train_step
  monkeypatch.setattr(
    _step, "train_step", lambda *args: traces.append(1) or train_step(*args)
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
    ("pooling.order", 3, "pooling.order is 3"),
    ("pooling.power_norm", "sigmoid", "sigmoid"),
    ("pooling.beta", 1.5, "beta"),
    ("optim.name", "lion", "optim.name is 'lion'"),
    ("train.trainable", "some", "train.trainable is 'some'"),
    ("train.batch_size", 0, "train.batch_size is 0"),
    ("train.batch_size", 33, "batch_size is 33, but train has 24 images; .* most 32"),
    ("train.checkpoint_every", 0, "train.checkpoint_every is 0"),
    ("dataset.test_split", "train[:4]", r"4 images of train are also in train\[:4\]"),
    ("dataset.split", "all", "images of all are also in test"),
    ("dataset.split", "train[:0]", "the split has no images"),
    ("dataset.test_split", "test[:0]", "the split has no images"),
    ("dataset.image_size", 0, "dataset.image_size is 0, expected a whole"),
    ("dataset.num_crops", 3, "num_crops"),
    ("dataset.resize", "stretch", "stretch"),
    ("dataset.augment", "rotate", "rotate"),
    ("optim.decay", 2.0, "optim.decay is 2.0"),
    ("optim.momentum", 3.0, "optim.momentum is 3.0"),
    ("optim.weight_decay", -1.0, "optim.weight_decay is -1.0"),
    ("classifier.weight_decay", -1.0, "classifier.weight_decay is -1.0"),
    ("classifier.rank", 4, "`rank` is 4"),
    ("optim.clip_norm", -1.0, "optim.clip_norm is -1.0"),
    ("train.label_smoothing", 2.0, "train.label_smoothing is 2.0"),
  ],
)
def test_bad_fields_are_named_before_anything_is_compiled(
  config, tmp_path, monkeypatch, field, value, message
):
  monkeypatch.setattr(_loop, "_describe_model_once", None)
  group, name = field.split(".")
  with config.ignore_type():
    config[group][name] = value
  with pytest.raises((ValueError, OSError), match=message) as error:
    run(config, tmp_path / "new")
  assert "\n" not in str(error.value)
  assert not (tmp_path / "new").exists()


def test_images_that_are_too_small(config, tmp_path):
  config.backbone.name = "alexnet"
  config.dataset.image_size = 8
  with pytest.raises(ValueError, match="image_size is 8, which is too small for alex"):
    run(config, tmp_path / "new")
  assert not (tmp_path / "new").exists()


def test_a_workdir_that_cannot_be_written_to(config, tmp_path):
  (tmp_path / "file").write_text("")
  with pytest.raises(OSError, match=r"workdir .*file/run cannot be written to"):
    run(config, tmp_path / "file" / "run")


def test_a_workdir_that_is_a_file(config, tmp_path):
  (tmp_path / "image.jpg").write_text("")
  with pytest.raises(NotADirectoryError, match=r"image\.jpg is a file, expected a fol"):
    run(config, tmp_path / "image.jpg")


def test_a_second_process_in_the_same_workdir_is_refused(config, tmp_path):
  with (
    runtime.lock_folder(tmp_path),
    pytest.raises(OSError, match="another process is writing"),
  ):
    run(config, tmp_path)


def test_a_run_does_not_continue_on_other_images(config, tmp_path, monkeypatch):
  run(config, tmp_path)
  monkeypatch.setattr(data.Split, "fingerprint", "of other images")
  with pytest.raises(ValueError, match="holds a run on other images"):
    run(config, tmp_path)


def test_a_run_does_not_continue_from_other_weights(config, tmp_path, monkeypatch):
  run(config, tmp_path)
  monkeypatch.setattr(pretrained.BackboneSpec, "fingerprint", "of other weights")
  with pytest.raises(ValueError, match="holds a run that started from other weights"):
    run(config, tmp_path)


def test_a_damaged_config(config, tmp_path):
  (tmp_path / "config.json").write_text("{")
  with pytest.raises(ValueError, match=r"config\.json is damaged"):
    run(config, tmp_path)


def test_frozen_layers_stay(config, tmp_path):
  config.train.trainable = "last_two_convs"
  config.train.num_epochs = 1
  run(config, tmp_path)
  tree = parameters(tmp_path)
  model, backbone = runs.load(tmp_path).model, config.backbone
  initial = pretrained.initial_variables(
    model, pretrained.untrained_backbone(backbone), image_size=32, seed=0
  )
  for path, x in traverse_util.flatten_dict(initial["params"], sep=".").items():
    is_frozen = f"frozen/{path}" in tree
    trained = tree[f"frozen/{path}" if is_frozen else f"trainable/{path}"]
    if is_frozen:
      np.testing.assert_array_equal(trained, x, err_msg=path)
    elif path.endswith("kernel"):
      assert np.any(trained != x), path
  assert "frozen/backbone.conv1.kernel" in tree
  assert "trainable/backbone.layer2.block0.conv3.kernel" in tree


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
def test_methods_suggest_the_parameters_that_are_missing(
  config, tmp_path, method, capsys
):
  config.pooling.eta_prime = None
  config.pooling.alpha = None
  config.pooling.num_pivots = 0
  methods.apply(config, method)
  config.train.num_epochs = 1
  result = run(config, tmp_path)
  assert np.isfinite(result["loss"])
  suggested = runs.read_model_info(tmp_path).suggested
  expected = {
    "fop_asinhe": {"gamma_prime"},
    "sop_maxexp": {"eta"},
    "sop_sc_spec_gamma": {"alpha"},
  }
  assert set(suggested) == expected.get(method, set())
  printed = capsys.readouterr().out
  assert all(f"{name} = {value:.4g}" in printed for name, value in suggested.items())


@pytest.mark.slow
def test_half_precision_and_batch_statistics(config, tmp_path):
  config.backbone.dtype = "bfloat16"
  config.backbone.batch_statistics = True
  result = run(config, tmp_path, num_devices=2)
  assert np.isfinite(result["loss"])
  mean = parameters(tmp_path)["batch_stats/backbone/bn1/mean"]
  assert np.any(mean != 0)


@pytest.mark.parametrize(
  "trainable",
  ["none", pytest.param("last_two_convs", marks=pytest.mark.slow)],
)
def test_cached_features_give_the_same_numbers(
  frozen_config, tmp_path, monkeypatch, trainable
):
  monkeypatch.setenv("PNJAX_CACHE", str(tmp_path / "cache"))
  frozen_config.train.trainable = trainable
  frozen_config.optim.learning_rate = frozen_config.optim.final_learning_rate = 1e-5
  run(frozen_config, tmp_path / "images")
  frozen_config.train.cache_features = True
  run(frozen_config, tmp_path / "features")
  # The cache has half precision, which RMSprop's first steps amplify.
  assert_same_losses(tmp_path / "images", tmp_path / "features", rtol=5e-3)


def test_each_epoch_has_one_view_of_each_image(frozen_config, tmp_path):
  frozen_config.train.cache_features = True
  frozen_config.train.cached_views = 3
  frozen_config.train.batch_size = 6
  experiment = train.open_experiment(frozen_config, runtime.Devices(jax.devices()[:1]))
  inputs, test_inputs = experiment.inputs(tmp_path)
  assert (inputs.num_views, test_inputs.num_views) == (3, 1)
  contents = [[view[i].tobytes() for i in range(24)] for view in inputs.views]
  where = {x: (v, i) for v, view in enumerate(contents) for i, x in enumerate(view)}
  batches = iter(inputs.train_batches())
  seen = []
  for _ in range(3):
    epoch = [x.tobytes() for _ in range(4) for x in next(batches)["features"]]
    views, images = zip(*(where[x] for x in epoch), strict=True)
    assert sorted(images) == list(range(24))
    assert np.bincount(views).tolist() == [8, 8, 8]
    seen += epoch
  # After as many epochs as views, all of them have been seen.
  assert len(set(seen)) == len(set(where))


def test_only_a_frozen_backbone_can_be_cached(config, tmp_path):
  config.train.cache_features = True
  with pytest.raises(
    ValueError, match=r"train.trainable is 'all', expected one of none"
  ):
    run(config, tmp_path)


def test_random_weights_are_not_cached(config, tmp_path):
  config.train.cache_features = True
  config.train.trainable = "none"
  with pytest.raises(ValueError, match=r"but backbone\.weights is None, expected pre"):
    run(config, tmp_path / "new")
  assert not (tmp_path / "new").exists()


def test_a_power_norm_of_your_own_trains_from_a_config(config, tmp_path, monkeypatch):
  def log1p(m, parameter, lam=1e-6):
    return jax.numpy.log1p(parameter * m)

  monkeypatch.setitem(ops.POWER_NORMS, "log1p", ops.PowerNorm(10.0, matrix=log1p))
  config.pooling.eta_prime = None
  config.pooling.power_norm = "log1p"
  config.pooling.parameter = 30.0
  config.train.num_epochs = 1
  assert np.isfinite(run(config, tmp_path)["loss"])
  trained = runs.load(tmp_path)
  assert trained.model.pooling.parameter == 30.0
  m, psi = trained.matrices(trained.features(np.zeros((1, 32, 32, 3), np.uint8)))
  np.testing.assert_allclose(psi, np.log1p(30 * m), rtol=1e-5)


@pytest.mark.parametrize(
  ("old", "new"),
  [
    (("head", "beta"), r"'head\.beta': it is pooling\.beta now"),
    (("head", "rank"), r"'head\.rank': it is classifier\.rank now"),
    (("train", "freeze"), r"'train\.freeze': it is train\.trainable"),
    (
      ("train", "accumulate"),
      r"'train\.accumulate': it is train\.num_microbatches now",
    ),
    (("dataset", "crop_side"), r"'dataset\.crop_side': it is dataset\.resize_side now"),
    (("train", "speed"), "config.train has no field 'speed', expected one of batch_"),
  ],
)
def test_a_run_with_an_old_name_names_the_new_one(finished_run, tmp_path, old, new):
  fields = json.loads((finished_run / "config.json").read_text())
  group, name = old
  fields.setdefault(group, {})[name] = 1
  (tmp_path / "config.json").write_text(json.dumps(fields))
  with pytest.raises(ValueError, match=f"holds a run of an earlier version: .*{new}"):
    runs.read_config(tmp_path)


def test_a_config_that_lacks_a_field(config, tmp_path):
  with config.unlocked():
    del config.train["log_every"]
  with pytest.raises(ValueError, match=r"the config has no train\.log_every; start"):
    run(config, tmp_path)
