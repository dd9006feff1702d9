import json
import math

import numpy as np
from PIL import Image
import pytest

from experiments.studies import parameter_sweep
from experiments.studies import sweep_files
from pnjax import probe
from pnjax import runs


@pytest.fixture
def sweep(config_of, feature_cache):
  def sweep(workdir, method="sop_sc_sigme", field=None, **kwargs):
    config = config_of(method)
    if field is not None:
      group, name, value = field
      config[group][name] = value
    arguments = {
      "param": "pooling.eta_prime",
      "values": [100.0],
      "num_folds": 3,
      "cache": feature_cache,
    }
    return parameter_sweep.run_sweep(config, workdir, **(arguments | kwargs))

  return sweep


def test_only_training_images_are_used(sweep, tmp_path, monkeypatch):
  seen = []
  kernel_of_config = probe.kernel_of_config

  def watched(config, frozen, *args):
    seen.append(len(frozen.labels))
    return kernel_of_config(config, frozen, *args)

  monkeypatch.setattr(probe, "kernel_of_config", watched)
  made = sweep(tmp_path, values=[1.0, 100.0, "suggested"], cache=tmp_path / "cache")
  assert seen == [24, 24, 24]
  (cached,) = (tmp_path / "cache").glob("*/rows")
  assert len(cached.read_text().splitlines()) == 24
  written = json.loads((tmp_path / "sweep.json").read_text())
  assert written == json.loads(json.dumps(made))  # Tuples become lists.
  assert [p["value"] for p in made["points"]] == [1.0, 100.0, "suggested"]
  means = [np.mean(point["accuracies"]["frozen"]) for point in made["points"]]
  best = made["points"][np.argmax(means)]
  assert made["best"] == best["used"]
  assert all(len(point["accuracies"]["frozen"]) == 3 for point in made["points"])
  markdown = (tmp_path / "sweep.md").read_text()
  assert f"| {best['used']:g} | **{max(means):.2f} ± " in markdown
  assert "(suggested) |" in markdown
  with Image.open(tmp_path / "sweep.png") as image:
    assert image.size == (600, 420)


def test_the_plot_shows_values_and_the_suggestion(sweep, tmp_path):
  made = sweep(tmp_path, values=[1.0, 100.0, "suggested"])
  (ax,) = sweep_files.figure(made).axes
  assert ax.get_xscale() == "log"
  values, suggested = (line.get_xdata() for line in (ax.lines[0], ax.lines[-1]))
  np.testing.assert_array_equal(values, [1, 100])
  np.testing.assert_array_equal(suggested, [made["points"][2]["used"]])


def test_many_images_are_sampled_from_every_class(sweep, tmp_path, monkeypatch, capsys):
  monkeypatch.setattr(probe, "MAX_ROWS", 12)
  labels = []
  cross_validate = probe.cross_validate

  def watched(kernel, labels_, *args):
    labels.append(labels_)
    return cross_validate(kernel, labels_, *args)

  monkeypatch.setattr(probe, "cross_validate", watched)
  sweep(tmp_path, "fop_asinhe", param="pooling.gamma_prime", values=[1.0])
  assert "sweeps 12 of the 24 images of train" in capsys.readouterr().out
  np.testing.assert_array_equal(np.bincount(labels[0]), [4, 4, 4])


def test_points_with_other_dependencies_are_computed_again(sweep, tmp_path):
  def points(workdir, **kwargs):
    made = sweep(tmp_path / workdir, **kwargs)
    return [point | {"seconds": None} for point in made["points"]]

  points("a")
  for kwargs in (
    {"num_folds": 2},
    {"num_folds": 2, "field": ("pooling", "rectify", False)},
  ):
    assert points("a", **kwargs) == points("b", **kwargs)


@pytest.mark.parametrize(
  "param,values,num_folds,match",
  [
    ("pooling.num_pivots", [3.0, 2.5], 3, r"--values has 2\.5, expected whole numbers"),
    ("pooling.beta", [0.0, 2.0], 3, r"pooling\.beta is 2\.0, expected"),
    ("pooling.eta_prime", [math.inf], 3, "--values has inf"),
    ("pooling.eta_prime", [], 3, "--values is empty"),
    ("pooling.eta_prime", [1.0, 1.0], 3, "--values is 1.0,1.0, expected different"),
    ("pooling.sigma", [-1.0], 3, r"pooling\.sigma is -1\.0, expected"),
    ("pooling.eta_prime", [1.0], 1, "--folds is 1, expected 2 to 24"),
    ("pooling.beta", ["suggested"], 3, r"pooling\.beta is not suggested here"),
    ("pooling.gamma_prime", ["suggested"], 3, r"gamma_prime is not suggested here"),
    ("pooling.reduction", [4.0], 3, r"--param is 'pooling\.reduction', expected one"),
    ("pooling.betta", [0.0], 3, r"--param is 'pooling\.betta', expected one of"),
    ("head.beta", [0.0], 3, r"--param is 'head\.beta': it is pooling\.beta now"),
  ],
)
def test_mistakes_are_found_first(sweep, tmp_path, param, values, num_folds, match):
  workdir = tmp_path / "sweep"
  with pytest.raises(ValueError, match=match):
    sweep(workdir, param=param, values=values, num_folds=num_folds)
  assert not workdir.exists()


@pytest.mark.slow
def test_trained_runs_can_be_swept(sweep, tmp_path):
  made = sweep(
    tmp_path,
    "fop",
    param="train.num_epochs",
    values=[0.0, 2.0],
    num_folds=2,
    finetune=True,
  )
  assert made["classifier"] == "refit"
  for point, steps in zip(made["points"], (0, 4), strict=True):
    workdirs = sorted(tmp_path.glob(f"runs/train.num_epochs-{point['value']}-*/fold-*"))
    results = [runs.read_result(workdir) for workdir in workdirs]
    assert [result["num_steps"] for result in results] == [steps, steps]
    for classifier, metrics in (
      ("softmax", results),
      ("refit", [result["refit"] for result in results]),
    ):
      top1 = [100 * m["top1"] for m in metrics]
      assert point["accuracies"][classifier] == pytest.approx(top1)
    # Nothing but training images: 24 in all.
    assert [result["num_examples"] for result in results] == [12, 12]
  best = max(made["points"], key=lambda p: np.mean(p["accuracies"]["refit"]))
  assert made["best"] == best["used"]
  markdown = (tmp_path / "sweep.md").read_text()
  assert markdown.startswith("| train.num_epochs | softmax: top-1, %, over 2 folds |")


@pytest.mark.parametrize(
  "param,values,match",
  [
    (
      "optim.name",
      [1.0],
      r"'optim\.name', expected a field of a group that is a number",
    ),
    ("seed", [1.0], r"--param is 'seed', expected a field of a group"),
    ("train", [1.0], r"--param is 'train', expected a field of a group"),
    ("optim.rate", [1.0], r"optim has no field 'rate'"),
    ("optim.classifier_rate", [1.0], "it is gone, since optim.learning_rate is"),
    (
      "classifier.dropout",
      [0.5, 1.0],
      r"classifier\.dropout is 1\.0, expected a finite",
    ),
    ("train.num_epochs", [1.5], r"--values has 1\.5, expected whole numbers"),
  ],
)
def test_mistakes_in_sweeps_of_trained_runs(sweep, tmp_path, param, values, match):
  workdir = tmp_path / "sweep"
  with pytest.raises(ValueError, match=match):
    sweep(workdir, param=param, values=values, finetune=True)
  assert not workdir.exists()


@pytest.mark.parametrize("finetune", [False, True])
@pytest.mark.parametrize(
  "field,match",
  [
    (("backbone", "weights", "absent.npz"), r"absent\.npz"),
    (("dataset", "image_size", 8), r"dataset\.image_size is 8"),
  ],
)
def test_mistakes_in_the_config_leave_no_folder(
  sweep, tmp_path, finetune, field, match
):
  workdir = tmp_path / "runs" / "sweep"
  with pytest.raises((ValueError, OSError), match=match):
    sweep(workdir, field=field, finetune=finetune)
  assert not workdir.parent.exists()


def test_the_workdir_is_a_folder(sweep, tmp_path):
  workdir = tmp_path / "sweep"
  workdir.touch()
  with pytest.raises(ValueError, match="sweep, which is a file, expected a folder"):
    sweep(workdir)


def test_values_are_numbers():
  assert parameter_sweep.parse_value("0.5") == 0.5
  assert parameter_sweep.parse_value("suggested") == "suggested"
  with pytest.raises(ValueError, match="--values has 'many', expected numbers or sugg"):
    parameter_sweep.parse_value("many")
