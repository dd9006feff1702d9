import json
import math

import numpy as np
import pytest

from experiments import sweeps
from experiments import tables
from experiments.configs import methods
from pnjax import data
from pnjax.train import kernel

ROWS = ("fop", "sop_sc_sigme", "sop_sc_spec_maxexp")


@pytest.fixture
def config_of(frozen_config):
  def config_of(method):
    config = frozen_config.copy_and_resolve_references()
    config.head.eta_prime = None
    config.head.alpha = None
    methods.apply(config, method)
    return config

  return config_of


def make(config_of, workdir, **kwargs):
  arguments = {"rows": ROWS, "splits": ["train"], "cache": workdir / "cache"}
  return tables.make(config_of, workdir, **(arguments | kwargs))


def test_table_has_all_rows(config_of, tmp_path, capsys):
  made = make(config_of, tmp_path)
  assert [row["method"] for row in made["rows"]] == list(ROWS)
  assert made == json.loads((tmp_path / "table.json").read_text())
  for row in made["rows"]:
    assert 0 <= row["top1"]["mean"] <= 100
    assert ("gain" in row) == (row["method"] != "fop")
  markdown = (tmp_path / "table.md").read_text()
  assert "| SOP+SC+SigmE |" in markdown
  assert markdown in capsys.readouterr().out
  assert (tmp_path / "table.png").stat().st_size > 1000


def test_rows_that_are_done_are_not_computed_again(config_of, tmp_path, monkeypatch):
  made = make(config_of, tmp_path)
  monkeypatch.setattr(tables.frozen_lib, "kernel", None)
  assert make(config_of, tmp_path) == made

  def other(group, name, value):
    def other_config_of(method):
      config = config_of(method)
      config[group][name] = value
      return config

    return other_config_of

  # Nothing is trained.
  assert make(other("optim", "learning_rate", 0.1), tmp_path) == made
  with pytest.raises(TypeError, match="NoneType"):
    make(other("head", "rectify", False), tmp_path)
  monkeypatch.setattr(data.Split, "fingerprint", "of other pictures")
  with pytest.raises(TypeError, match="NoneType"):
    make(config_of, tmp_path)


def test_alexnet_has_no_baseline(config_of, tmp_path):
  made = make(config_of, tmp_path, rows=["baseline", "fop"])
  assert [row["method"] for row in made["rows"]] == ["fop"]
  with pytest.raises(ValueError, match="baseline, which alexnet does not have"):
    make(config_of, tmp_path, rows=["baseline"])


def test_rows_of_another_config_stay(config_of, tmp_path, monkeypatch):
  made = make(config_of, tmp_path, rows=["fop"])

  def raw(method):
    config = config_of(method)
    config.head.rectify = False
    return config

  other = make(raw, tmp_path, rows=["fop"], overrides={"head.rectify": False})
  assert "Set for all rows: head.rectify = False." in other["protocol"]
  assert "head.rectify = False" in (tmp_path / "table.md").read_text()
  monkeypatch.setattr(tables.frozen_lib, "kernel", None)
  assert make(config_of, tmp_path, rows=["fop"]) == made


def test_damaged_features_give_no_row(config_of, tmp_path):
  make(config_of, tmp_path / "before", rows=["fop"], cache=tmp_path / "cache")
  (maps,) = (tmp_path / "cache").glob("*/maps")
  maps.write_bytes(b"\xff" * maps.stat().st_size)
  with pytest.raises(OSError, match=f"{maps.parent} is damaged"):
    make(config_of, tmp_path / "after", rows=["fop"], cache=tmp_path / "cache")
  assert not list((tmp_path / "after/rows").iterdir())


def test_unknown_rows(config_of, tmp_path):
  with pytest.raises(ValueError, match="--rows has sopp, expected some of baseline"):
    make(config_of, tmp_path, rows=["sopp"])
  with pytest.raises(ValueError, match="--rows is empty"):
    make(config_of, tmp_path, rows=[""])


@pytest.mark.slow
def test_rows_can_be_trained_end_to_end(config_of, tmp_path):
  made = make(config_of, tmp_path, rows=["sop"], finetune=True)
  (run,) = (tmp_path / "runs").glob("sop-train-*")
  result = json.loads((run / "result.json").read_text())
  np.testing.assert_allclose(made["rows"][0]["top1"]["mean"], 100 * result["top1"])


def test_many_pictures_get_a_softmax_layer(config_of, tmp_path, monkeypatch):
  made = make(config_of, tmp_path, rows=["fop"])
  assert any("classifier is ridge regression" in line for line in made["protocol"])
  monkeypatch.setattr(kernel, "MAX_PICTURES", 10)
  made = make(config_of, tmp_path, rows=["fop"])
  assert any("classifier is a softmax layer" in line for line in made["protocol"])
  (run,) = (tmp_path / "runs").glob("fop-train-*")
  result = json.loads((run / "result.json").read_text())
  np.testing.assert_allclose(made["rows"][0]["top1"]["mean"], 100 * result["top1"])
  config = json.loads((run / "config.json").read_text())
  assert config["train"]["freeze"] == "backbone"
  assert config["train"]["cache_features"]
  assert len(list((tmp_path / "cache").iterdir())) == 1


def test_gain_is_paired():
  def row(*splits):
    return {"outcomes": [{"right": right} for right in splits]}

  worse, better = [1, 0, 0, 1], [1, 1, 0, 1]
  single = tables._gain(row(better), row(worse))
  assert single["mean"] == 25
  assert 0 <= single["low"] <= 25 <= single["high"] <= 100
  several = tables._gain(row(better, better), row(worse, worse))
  assert several == {"mean": 25, "low": 25, "high": 25}


def test_sweep_uses_training_pictures_only(config_of, tmp_path, monkeypatch):
  seen = []
  kernel = sweeps.frozen_lib.kernel

  def watched(config, frozen, *args):
    seen.append(len(frozen.labels))
    return kernel(config, frozen, *args)

  monkeypatch.setattr(sweeps.frozen_lib, "kernel", watched)
  made = sweeps.make(
    config_of("sop_sc_sigme"),
    tmp_path,
    param="head.eta_prime",
    values=[1.0, 100.0, "suggested"],
    num_folds=3,
    cache=tmp_path / "cache",
  )
  assert set(seen) == {24}
  (cached,) = (tmp_path / "cache").glob("*/rows")
  assert len(cached.read_text().splitlines()) == 24
  assert [p["value"] for p in made["points"]] == [1.0, 100.0, "suggested"]
  assert made["best"] in [p["used"] for p in made["points"]]
  assert "(suggested)" in (tmp_path / "sweep.md").read_text()
  assert (tmp_path / "sweep.png").stat().st_size > 1000


def test_sweep_of_many_pictures_takes_some_of_every_class(
  config_of, tmp_path, monkeypatch, capsys
):
  monkeypatch.setattr(kernel, "MAX_PICTURES", 12)
  labels = []
  classify = sweeps.frozen_lib.classify

  def watched(kernel, labels_, *args):
    labels.append(labels_)
    return classify(kernel, labels_, *args)

  monkeypatch.setattr(sweeps.frozen_lib, "classify", watched)
  sweeps.make(
    config_of("fop_asinhe"),
    tmp_path,
    param="head.gamma_prime",
    values=[1.0],
    num_folds=3,
    cache=tmp_path / "cache",
  )
  assert "sweeps 12 of the 24 pictures of train" in capsys.readouterr().out
  counts = np.bincount(labels[0])
  assert counts.sum() == 12
  assert max(counts) - min(counts) <= 1


def test_points_of_another_experiment_are_computed_again(config_of, tmp_path):
  def sweep(workdir, num_folds, rectify=True):
    config = config_of("sop_sc_sigme")
    config.head.rectify = rectify
    made = sweeps.make(
      config,
      workdir,
      param="head.eta_prime",
      values=[100.0],
      num_folds=num_folds,
      cache=tmp_path / "cache",
    )
    return [point | {"seconds": None} for point in made["points"]]

  sweep(tmp_path / "a", 3)
  for arguments in ((2,), (2, False)):
    assert sweep(tmp_path / "a", *arguments) == sweep(tmp_path / "b", *arguments)


@pytest.mark.parametrize(
  "param,values,num_folds,match",
  [
    ("num_pivots", [3.0, 2.5], 3, r"--values has 2\.5, expected whole numbers"),
    ("beta", [0.0, 2.0], 3, "`beta` is 2"),
    ("eta_prime", [math.inf], 3, "--values has inf"),
    ("eta_prime", [], 3, "--values is empty"),
    ("eta_prime", [1.0], 1, "--folds is 1, expected 2 to 24"),
    ("beta", ["suggested"], 3, r"head\.beta is not suggested here"),
    ("gamma_prime", ["suggested"], 3, r"head\.gamma_prime is not suggested here"),
    ("reduction", [4.0], 3, r"--param is 'head\.reduction', expected one of"),
  ],
)
def test_mistakes_in_a_sweep_are_said_first(
  config_of, tmp_path, param, values, num_folds, match
):
  config, workdir = config_of("sop_sc_sigme"), tmp_path / "sweep"
  with pytest.raises(ValueError, match=match):
    sweeps.make(
      config, workdir, param=f"head.{param}", values=values, num_folds=num_folds
    )
  assert not workdir.exists()


def test_sweep_of_an_unknown_field(config_of, tmp_path):
  with pytest.raises(ValueError, match=r"--param is 'head\.betta', expected one of"):
    sweeps.make(config_of("sop"), tmp_path, param="head.betta", values=[0.0])


def test_folds_are_even_and_fixed():
  labels = np.repeat(np.arange(7), [5, 5, 5, 4, 6, 5, 5])
  folds = sweeps.split_into_folds(labels, 5, seed=0)
  np.testing.assert_array_equal(np.bincount(folds), [7] * 5)
  assert max(np.bincount(folds[labels == 0])) == 1
  np.testing.assert_array_equal(folds, sweeps.split_into_folds(labels, 5, seed=0))
