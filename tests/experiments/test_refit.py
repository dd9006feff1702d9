import shutil

import pytest

from experiments import refit
from pnjax import runs


def test_the_command_repeats_the_result_of_the_run(finished_run, tmp_path, capsys):
  workdir = shutil.copytree(finished_run, tmp_path / "run")
  (workdir / "refit.safetensors").unlink()
  assert refit.main([f"--workdir={workdir}"]) == 0
  before, after = runs.read_result(finished_run), runs.read_result(workdir)
  assert after["refit"] == before["refit"]
  line = f"refit: top-1 {after['refit']['top1']:.2%}, mean per class"
  assert line in capsys.readouterr().out
  assert runs.load(workdir).classifier == "refit"


def test_mistakes_are_reported_in_a_line(tmp_path, capsys):
  assert refit.main([f"--workdir={tmp_path}"]) == 1
  assert capsys.readouterr().err == (
    f"error: {tmp_path} holds no run: it has no config.json.\n"
  )
  with pytest.raises(SystemExit):
    refit.main([])
