import re

import pytest

from experiments import export


def test_it_prints_sizes_and_the_time_of_the_first_call(finished_run, tmp_path, capsys):
  folder = tmp_path / "model"
  assert export.main([f"--workdir={finished_run}", f"--output={folder}"]) == 0
  sizes, seconds = capsys.readouterr().out.splitlines()
  for path in folder.iterdir():
    assert f"{path.name} {path.stat().st_size / 1e6:.2f} MB" in sizes
  assert re.fullmatch(r"first call: \d+\.\d s, with compilation", seconds)


def test_mistakes_are_reported_in_a_line(finished_run, tmp_path, capsys):
  output = f"--output={tmp_path / 'model'}"
  assert export.main([f"--workdir={tmp_path}", output]) == 1
  assert "holds no run" in capsys.readouterr().err
  (tmp_path / "notes.txt").write_text("mine")
  assert export.main([f"--workdir={finished_run}", f"--output={tmp_path}"]) == 1
  error = capsys.readouterr().err
  assert "is no exported model, expected a new or an empty folder" in error
  assert error.count("\n") == 1
  with pytest.raises(SystemExit):
    export.main([output])
