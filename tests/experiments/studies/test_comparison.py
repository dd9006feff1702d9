import json
import re
import shutil
import sys

import numpy as np
from PIL import Image
import pytest

from experiments import cli
from experiments.studies import comparison
from experiments.studies import outcomes as outcomes_lib
from experiments.studies import stored
from experiments.studies import table_contents
from experiments.studies import table_files
from pnjax import data
from pnjax import probe
from pnjax import runs

ROWS = ("fop", "sop_sc_sigme", "sop_sc_spec_maxexp")


@pytest.fixture
def make(config_of, feature_cache):
  """Makes a table; a field of all configs may be set."""

  def make(workdir, field=None, **kwargs):
    def configured(method):
      config = config_of(method)
      if field is not None:
        group, name, value = field
        config[group][name] = value
      return config

    arguments = {"rows": ROWS, "splits": ["train"], "cache": feature_cache}
    return comparison.make_table(configured, workdir, **(arguments | kwargs))

  return make


def test_a_table_has_all_rows(make, config_of, feature_cache, tmp_path, capsys):
  table = make(tmp_path)
  assert [row["method"] for row in table["rows"]] == list(ROWS)
  assert table == json.loads((tmp_path / "table.json").read_text())
  pair = data.open_splits(config_of("fop").dataset)
  frozen = probe.load_frozen_features(config_of("fop"), [pair], feature_cache)
  for row in table["rows"]:
    config = config_of(row["method"])
    suggested = probe.suggest_parameters(config, frozen)
    assert row["suggested"] == suggested
    kernel = probe.kernel_of_config(config, frozen, suggested, "")
    train, test = frozen.pairs[0]
    labels = frozen.labels[train]
    fitted = probe.fit_ridge(kernel[np.ix_(train, train)], labels, frozen.num_classes)
    predictions = fitted.predict(kernel[np.ix_(test, train)])
    (metrics,) = row["classifiers"].values()
    right = predictions == frozen.labels[test]
    assert metrics["top1"]["mean"] == pytest.approx(100 * np.mean(right))
    assert ("gain" in metrics) == (row["method"] != "fop")
  markdown = (tmp_path / "table.md").read_text()
  assert markdown == table_files.markdown(table)
  assert "| SOP+SC+SigmE |" in markdown
  assert "sop_sc_spec_maxexp   top-1: frozen " in capsys.readouterr().out


def test_the_plot_has_a_dot_for_each_row(make, tmp_path):
  table = make(tmp_path, rows=["fop", "sop"])
  table["rows"][1]["paper"] = 87.2
  (ax,) = table_files.figure(table).axes
  assert [label.get_text() for label in ax.get_yticklabels()] == ["FOP", "SOP"]
  (ours,) = (container[0] for container in ax.containers)
  means = [row["classifiers"]["frozen"]["top1"]["mean"] for row in table["rows"]]
  np.testing.assert_array_equal(ours.get_xydata(), np.c_[means, [0, 1]])
  (cited,) = (line for line in ax.lines if line.get_label() == "paper")
  np.testing.assert_array_equal(cited.get_xydata(), [[87.2, 1]])
  with Image.open(tmp_path / "table.png") as image:
    assert image.width == 960


def test_only_rows_with_other_features_or_pooling_are_computed_again(
  make, tmp_path, monkeypatch
):
  table = make(tmp_path, rows=["fop"])
  classify, computed = probe.classify, []

  def watched(config, *args):
    computed.append(config.pooling.power_norm)
    return classify(config, *args)

  monkeypatch.setattr(probe, "classify", watched)
  # Nothing is trained.
  assert make(tmp_path, ("optim", "learning_rate", 0.1), rows=["fop"]) == table
  assert computed == []
  make(tmp_path, ("pooling", "rectify", False), rows=["fop"])
  assert len(computed) == 1
  assert make(tmp_path, rows=["fop"]) == table  # The other row is still there.
  assert len(computed) == 1
  monkeypatch.setattr(data.Split, "fingerprint", "of other images")
  make(tmp_path, rows=["fop"])
  assert len(computed) == 2


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 6149])
def test_which_images_are_right_is_stored_in_few_digits(count):
  right = np.random.default_rng(0).random(count) < 0.9
  text = outcomes_lib.pack(right)
  assert len(text) == 2 * -(-count // 8)
  np.testing.assert_array_equal(outcomes_lib.unpack(text, count), right)


def test_a_table_is_made_of_its_own_data(make, tmp_path):
  make(tmp_path)
  table = json.loads((tmp_path / "table.json").read_text())
  rows = table_contents.rows_of(table)
  stored = (tmp_path / "rows").glob("*.json")
  by_name = {path.stem.split("-")[0]: json.loads(path.read_text()) for path in stored}
  assert rows == by_name
  made = table_contents.compare(rows, table["notes"], table["shown"])
  assert made == {name: table[name] for name in made}
  assert set(table) - set(made) == {"versions", "git_revision", "command"}
  # Fields are stored once, as far as rows agree.
  assert table["settings"]["config"]["backbone.name"] == "alexnet"
  assert all("pooling.order" in row["config"] for row in table["rows"])
  assert all("backbone.name" not in row["config"] for row in table["rows"])


def test_a_table_has_all_rows_that_are_stored(make, tmp_path):
  make(tmp_path / "whole", rows=["fop", "sop", "sop_sc_sigme", "bcnn"])
  whole = json.loads((tmp_path / "whole" / "table.json").read_text())
  workdir = tmp_path / "in_parts"
  make(workdir, ("pooling", "rectify", False), rows=["fop_asinhe"])  # Another table.
  make(workdir, rows=["bcnn", "sop_sc_sigme", "fop"])
  make(workdir, rows=["sop"], command_of=lambda rows: f"table {','.join(rows)}")
  table = json.loads((workdir / "table.json").read_text())
  assert table["command"] == "table fop,sop,sop_sc_sigme,bcnn"
  for row in (*table["rows"], *whole["rows"]):
    row["seconds"] = 0
  assert table["rows"] == whole["rows"]
  markdown = (workdir / "table.md").read_text()
  names = re.findall(r"^\| ([\w+]+)", markdown, re.MULTILINE)
  assert names == ["method", "FOP", "SOP", "SOP+SC+SigmE", "BCNN"]
  assert "\ntable fop,sop,sop_sc_sigme,bcnn\n" in markdown
  (ax,) = table_files.figure(table).axes
  assert len(ax.get_yticklabels()) == 4


def test_a_copied_table_continues(make, tmp_path, monkeypatch):
  first = make(tmp_path / "first", rows=["fop", "sop"])
  (tmp_path / "second").mkdir()
  shutil.copy(tmp_path / "first" / "table.json", tmp_path / "second")
  computed = []
  classify = probe.classify
  monkeypatch.setattr(
    probe, "classify", lambda *args: computed.append(args[-1]) or classify(*args)
  )
  second = make(tmp_path / "second", rows=["sop_sc_sigme"])
  assert computed == ["sop_sc_sigme"]
  assert [row["method"] for row in second["rows"]] == ["fop", "sop", "sop_sc_sigme"]
  assert table_contents.rows_of(second) | table_contents.rows_of(first) == (
    table_contents.rows_of(second)
  )


def test_rows_that_finish_meanwhile_are_shown(make, tmp_path, monkeypatch):
  classify = probe.classify

  def interrupted(*args):
    monkeypatch.undo()
    make(tmp_path, rows=["fop"])  # By another process.
    return classify(*args)

  monkeypatch.setattr(probe, "classify", interrupted)
  table = make(tmp_path, rows=["sop"])
  assert [row["method"] for row in table["rows"]] == ["fop", "sop"]


@pytest.mark.parametrize("rows", ["--rows=sop", "-rows=sop", "--rows sop", ""])
def test_the_command_has_all_rows(rows, monkeypatch):
  others = ["--output=a.json", "--workdir", "a table"]
  args = ["--config=a.py:fop,alexnet", *rows.split(), *others]
  monkeypatch.setattr(sys, "argv", ["table.py", *args])
  command = cli.command_line("experiments.table", {"rows": "fop,sop", "output": None})
  assert command == (
    "python -m experiments.table --config=a.py:fop,alexnet --workdir 'a table' "
    "--rows=fop,sop"
  )


def test_a_note_names_the_fields_that_were_set(make, tmp_path):
  table = make(
    tmp_path,
    ("pooling", "rectify", False),
    rows=["fop"],
    overrides={"pooling.rectify": False},
  )
  assert "Set for all rows: pooling.rectify = False." in table["notes"]
  assert "pooling.rectify = False" in (tmp_path / "table.md").read_text()


def test_alexnet_has_no_baseline(make, tmp_path):
  table = make(tmp_path, rows=["baseline", "fop"])
  assert [row["method"] for row in table["rows"]] == ["fop"]


def test_damaged_features_give_no_row(make, tmp_path):
  make(tmp_path / "before", rows=["fop"], cache=tmp_path / "cache")
  (maps,) = (tmp_path / "cache").glob("*/maps")
  maps.write_bytes(b"\xff" * maps.stat().st_size)
  with pytest.raises(OSError, match=f"{maps.parent} is damaged"):
    make(tmp_path / "after", rows=["fop"], cache=tmp_path / "cache")
  assert not (tmp_path / "after").exists()


@pytest.mark.parametrize(
  "field,kwargs,match",
  [
    (None, {"rows": ["sopp"]}, "--rows has sopp, expected some of baseline"),
    (None, {"rows": [""]}, "--rows is empty"),
    (None, {"rows": ["baseline"]}, "baseline, which alexnet does not have"),
    (None, {"splits": ["trian"]}, "trian"),
    (None, {"splits": ["train", "train"]}, "--splits is train,train, expected names"),
    (None, {"splits": [""]}, "--splits is , expected names of different splits"),
    (("pooling", "lam", -1.0), {}, r"pooling\.lam is -1\.0, expected"),
    (("dataset", "test_split", "train"), {}, "are also in train"),
    (("pooling", "beta", 2.0), {"rows": ["sop"]}, r"pooling\.beta is 2\.0, expected"),
    (("pooling", "reduction", 2), {"rows": ["sop"]}, r"pooling\.reduction and"),
    (("dataset", "image_size", 8), {}, r"dataset\.image_size is 8"),
    (("backbone", "weights", "absent"), {}, "No such file .*'absent'"),
    (("train", "batch_size", 0), {"finetune": True}, r"train\.batch_size is 0"),
  ],
)
def test_mistakes_leave_no_folder(make, tmp_path, field, kwargs, match):
  workdir = tmp_path / "runs" / "table"
  with pytest.raises((ValueError, OSError), match=match):
    make(workdir, field, **kwargs)
  assert not workdir.parent.exists()


def test_the_workdir_is_a_folder(make, tmp_path):
  workdir = tmp_path / "table"
  workdir.touch()
  with pytest.raises(ValueError, match="table, which is a file, expected a folder"):
    make(workdir)


def test_the_cache_is_a_folder(make, tmp_path):
  (tmp_path / "file").touch()
  with pytest.raises(ValueError, match=r"file/cache, but .*file is a file, expected"):
    make(tmp_path / "table", cache=tmp_path / "file" / "cache")
  assert not (tmp_path / "table").exists()


def test_a_folder_that_cannot_be_written_to(make, tmp_path, monkeypatch):
  monkeypatch.setattr(stored.os, "access", lambda path, mode: False)
  with pytest.raises(ValueError, match=f"but {tmp_path} cannot be written to"):
    make(tmp_path / "table")


def test_a_table_of_other_settings_is_kept(make, tmp_path, capsys):
  make(tmp_path, rows=["fop", "sop"])
  before = (tmp_path / "table.md").read_text()
  capsys.readouterr()
  make(tmp_path, ("dataset", "image_size", 96), rows=["fop"])
  (kept,) = tmp_path.glob("table-*.md")
  assert kept.read_text() == before
  assert len(list(tmp_path.glob(f"{kept.stem}.*"))) == 3
  assert f"that was in {tmp_path} is {kept.name} now" in capsys.readouterr().out
  assert "96 × 96" in (tmp_path / "table.md").read_text()


def test_a_table_with_fewer_rows_asked_for_never_shrinks(make, tmp_path):
  make(tmp_path, rows=["fop", "sop"])
  rows = [row["method"] for row in make(tmp_path, rows=["fop"])["rows"]]
  assert rows == ["fop", "sop"]
  assert not list(tmp_path.glob("table-*"))


def test_a_damaged_table_is_kept_and_made_again(make, tmp_path):
  make(tmp_path, rows=["fop"])
  (tmp_path / "table.json").write_text("{")
  make(tmp_path, rows=["fop"])
  assert (tmp_path / "table-before.json").read_text() == "{"
  assert json.loads((tmp_path / "table.json").read_text())["reference"] == "fop"


@pytest.mark.slow
def test_rows_can_be_trained(make, tmp_path):
  table = make(tmp_path, rows=["fop", "sop"], finetune=True)
  _, row = table["rows"]
  trained, frozen = (
    runs.read_result(*(tmp_path / "runs").glob(f"sop-train-????????{suffix}"))
    for suffix in ("", "-frozen")
  )
  assert (trained["num_steps"], frozen["num_steps"]) == (6, 0)
  for name, metrics in (
    ("frozen", frozen["refit"]),
    ("softmax", trained),
    ("refit", trained["refit"]),
  ):
    for metric in ("top1", "mean_per_class"):
      mean = row["classifiers"][name][metric]["mean"]
      assert mean == pytest.approx(100 * metrics[metric])
  gain = 100 * (trained["refit"]["top1"] - frozen["refit"]["top1"])
  assert row["learned"]["mean"] == pytest.approx(gain)
  markdown = (tmp_path / "table.md").read_text()
  assert "| refit − FOP [95%] | refit − frozen [95%] | paper |" in markdown
  (ax,) = table_files.figure(table).axes
  assert len(ax.containers) == 3
  (outcome,) = row["classifiers"]["softmax"]["outcomes"]
  assert [epoch for epoch, _ in outcome["curve"]] == [1, 2]
  assert outcome["curve"][-1][1] == trained["top1"]
  assert (tmp_path / "curves.png").exists()
  assert "stays within a point of its last accuracy: FOP " in markdown


def test_more_images_than_a_kernel_can_hold(make, tmp_path, monkeypatch):
  monkeypatch.setattr(probe, "MAX_ROWS", 10)
  table = make(tmp_path, rows=["fop"])
  (run,) = (tmp_path / "runs").glob("fop-train-*-frozen")
  result = runs.read_result(run)
  (metrics,) = table["rows"][0]["classifiers"].values()
  assert metrics["top1"]["mean"] == pytest.approx(100 * result["refit"]["top1"])
  train = runs.read_config(run).train
  assert (train.trainable, train.cache_features, train.num_epochs) == ("none", True, 0)


def test_the_gain_on_one_split_is_paired_by_image():
  theirs = np.array([1, 0, 0, 1] * 50)
  ours = np.array([1, 1, 0, 1] * 50)
  gain = table_contents.paired_gain([ours], [theirs])
  assert gain["mean"] == 25
  # The standard error of 200 differences that are 1 with a probability of 1/4.
  error = 100 * np.sqrt(0.25 * 0.75 / 200)
  np.testing.assert_allclose(gain["low"], 25 - 1.96 * error, atol=1)
  np.testing.assert_allclose(gain["high"], 25 + 1.96 * error, atol=1)


def test_the_gain_on_several_splits_is_paired_by_split():
  theirs, ours = np.array([1, 0, 0, 1]), np.array([1, 1, 0, 1])
  same = table_contents.paired_gain([ours, ours], [theirs, theirs])
  assert same == {"mean": 25, "low": 25, "high": 25}
  gain = table_contents.paired_gain([ours, theirs], [theirs, theirs])
  # Differences of 25 and 0: a mean of 12.5, an error of 12.5, and t(1) = 12.706.
  np.testing.assert_allclose(gain["mean"], 12.5)
  np.testing.assert_allclose(gain["high"], 12.5 + 12.5 * 12.706, rtol=1e-4)
  np.testing.assert_allclose(gain["low"], 12.5 - 12.5 * 12.706, rtol=1e-4)
