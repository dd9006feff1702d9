"""Runs that continue after damage."""

import shutil

import pytest

from pnjax import pretrained
from pnjax import runs
from pnjax import train
from tests import small_runs


@pytest.fixture
def workdir(finished_run, tmp_path):
  """A run that was killed after its last checkpoint, for a test to damage."""
  workdir = shutil.copytree(finished_run, tmp_path / "run")
  for name in ("result.json", "predictions.npz", "refit.safetensors"):
    (workdir / name).unlink()
  return workdir


def change_a_byte(path):
  content = bytearray(path.read_bytes())
  content[len(content) // 2] ^= 1
  path.write_bytes(content)


def assert_same_result(actual, expected):
  small_runs.assert_same_run(actual, expected)
  small, whole = (small_runs.result(workdir) for workdir in (actual, expected))
  for name in ("top1", "loss", "per_class", "refit"):
    assert small[name] == whole[name]


def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one(
  config, workdir, finished_run, capsys
):
  change_a_byte(workdir / "checkpoints/6/run/arrays.npz")
  small_runs.run(config, workdir)
  (line,) = capsys.readouterr().err.splitlines()
  assert line == (
    f"a checkpoint was damaged and is removed: {workdir}/checkpoints/6/run/arrays.npz "
    "has changed since it was written. The run goes on from the one of step 3."
  )
  assert_same_result(workdir, finished_run)


def test_a_run_without_a_whole_checkpoint(config, workdir):
  for step in ("3", "6"):
    change_a_byte(workdir / "checkpoints" / step / "run/position.json")
  with pytest.raises(ValueError, match=r"all checkpoints in .* are damaged: ") as error:
    small_runs.run(config, workdir)
  assert "Remove the folder, and the same command begins" in str(error.value)
  assert "\n" not in str(error.value)
  assert len(list((workdir / "checkpoints").iterdir())) == 2  # Nothing is lost.


@pytest.mark.parametrize("name", ["metrics.jsonl", "timings.jsonl"])
def test_junk_among_the_records_of_a_run(config, workdir, name):
  path = workdir / name
  path.write_text("junk\n" + path.read_text())
  with pytest.raises(ValueError, match=rf"line 1 of .*{name} is 'junk', expected a"):
    small_runs.run(config, workdir)


def test_files_that_a_run_writes_again(config, workdir, finished_run):
  for name in ("classes.txt", "model.json", "weights.safetensors"):
    (workdir / name).unlink()
  with (workdir / "metrics.jsonl").open("a") as file:
    file.write('{"step": 7, "spl')
  small_runs.run(config, workdir)
  assert_same_result(workdir, finished_run)
  assert runs.read_class_names(workdir) == runs.read_class_names(finished_run)
  assert runs.read_model_info(workdir) == runs.read_model_info(finished_run)
  assert pretrained.load(workdir).variables


@pytest.mark.parametrize(
  "name", ["classes.txt", "predictions.npz", "refit.safetensors", "weights.safetensors"]
)
def test_a_damaged_file_of_a_finished_run_is_written_again(
  config, finished_run, tmp_path, capsys, name
):
  workdir = shutil.copytree(finished_run, tmp_path / "run")
  content = (workdir / name).read_bytes()
  (workdir / name).write_bytes(content[: len(content) // 2])
  small_runs.run(config, workdir)
  line = capsys.readouterr().out.splitlines()[0]
  assert line == f"{name} is missing or damaged, and is written again"
  assert_same_result(workdir, finished_run)
  assert len((workdir / name).read_bytes()) == len(content)
  assert small_runs.run(config, workdir) == small_runs.result(workdir)
  assert capsys.readouterr().out == ""


def test_a_finished_run_without_checkpoints_is_not_trained_again(
  config, finished_run, tmp_path
):
  workdir = shutil.copytree(finished_run, tmp_path / "run")
  shutil.rmtree(workdir / "checkpoints")
  assert small_runs.run(config, workdir) == small_runs.result(finished_run)
  (workdir / "weights.safetensors").unlink()
  message = r"weights\.safetensors .* there is no checkpoint .* Remove result\.json"
  with pytest.raises(FileNotFoundError, match=message):
    small_runs.run(config, workdir)
  assert (workdir / "result.json").exists()


def test_files_of_a_run_can_be_read_by_others(finished_run):
  modes = {path.name: path.stat().st_mode & 0o444 for path in finished_run.glob("*.*")}
  assert set(modes.values()) == {0o444}, modes


@pytest.mark.parametrize("name", ["config.json", "fingerprints.json"])
def test_a_file_that_says_which_run_it_is(config, workdir, name):
  (workdir / name).unlink()
  with pytest.raises(ValueError, match=f"copy its {name} to here, or choose another"):
    small_runs.run(config, workdir)


@pytest.mark.parametrize("name", ["result.json", "model.json"])
def test_a_damaged_file_of_a_run(config, workdir, name):
  (workdir / name).write_text("{")
  with pytest.raises(ValueError, match=f"{name} is damaged: .* Remove "):
    small_runs.run(config, workdir)


@pytest.mark.parametrize("name", ["config.json", "model.json", "fingerprints.json"])
def test_a_run_with_a_missing_file_is_not_refit(finished_run, tmp_path, name):
  workdir = shutil.copytree(finished_run, tmp_path / "run")
  (workdir / name).unlink()
  with pytest.raises((FileNotFoundError, ValueError), match=f"no .*{name}") as error:
    train.refit_run(workdir)
  assert "\n" not in str(error.value)


def test_a_run_with_a_damaged_checkpoint_is_not_refit(finished_run, tmp_path):
  workdir = shutil.copytree(finished_run, tmp_path / "run")
  change_a_byte(workdir / "checkpoints/6/run/arrays.npz")
  with pytest.raises(ValueError, match="the last checkpoint of the run is damaged"):
    train.refit_run(workdir)
