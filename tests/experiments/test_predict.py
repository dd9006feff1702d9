import json
import subprocess
import sys

import numpy as np
from PIL import Image
import pytest

from experiments import predict
from pnjax import data
from pnjax import runs
from tests.small_runs import ROOT


@pytest.fixture(scope="module")
def images(tmp_path_factory):
  folder = tmp_path_factory.mktemp("images")
  rng = np.random.default_rng(0)
  for i in range(2):
    image = rng.integers(0, 255, (40, 30, 3), dtype=np.uint8)
    Image.fromarray(image).save(folder / f"{i}.png")
  return folder


def test_predicts_files_and_folders(finished_run, images, capsys):
  arguments = [f"--workdir={finished_run}", str(images), str(images / "1.png")]
  assert predict.main([*arguments, "--json"]) == 0
  lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  assert [line["file"].split("/")[-1] for line in lines] == ["0.png", "1.png", "1.png"]
  for line in lines:
    assert {top["class"] for top in line["top"]} == {"dark", "light", "striped"}
    probabilities = [top["probability"] for top in line["top"]]
    np.testing.assert_allclose(sum(probabilities), 1, rtol=1e-5)
    assert probabilities == sorted(probabilities, reverse=True)
  assert predict.main([*arguments, "--top=1"]) == 0
  out = capsys.readouterr().out.splitlines()
  assert len(out) == 6
  assert out[1].split()[-1] == lines[0]["top"][0]["class"]


@pytest.mark.parametrize("classifier", ["softmax", "refit", None])
def test_predictions_equal_those_of_the_run(
  finished_run, data_dir, tmp_path, capsys, classifier
):
  split = data.open_split("folder", "test", data_dir)
  _, expected = runs.read_predictions(finished_run, classifier or "refit")
  files = []
  for i in range(len(split)):
    files.append(tmp_path / f"{i:02}.png")
    files[-1].write_bytes(split[i]["image"])
  options = [f"--classifier={classifier}"] if classifier else []
  options += [f"--workdir={finished_run}", "--json"]
  assert predict.main([*options, *map(str, files)]) == 0
  lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  predicted = [split.class_names.index(line["top"][0]["class"]) for line in lines]
  np.testing.assert_array_equal(predicted, expected)


@pytest.mark.slow
def test_the_output_need_not_be_read_to_the_end(finished_run, images):
  arguments = [f"--workdir={finished_run}", *[str(images)] * 20]
  command = [sys.executable, "-m", "experiments.predict", *arguments]
  pipe = subprocess.PIPE
  with subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe) as process:
    process.stdout.close()
    assert process.stderr.read() == b""
  assert process.returncode == 141


def test_mistakes_are_reported_in_a_line(finished_run, images, tmp_path, capsys):
  image = str(images / "0.png")
  assert predict.main([f"--workdir={tmp_path / 'none'}", image]) == 1
  assert "holds no run" in capsys.readouterr().err
  assert predict.main([f"--workdir={finished_run}", "missing.jpg"]) == 1
  assert "there is no file missing.jpg" in capsys.readouterr().err
  broken = tmp_path / "broken.jpg"
  broken.write_bytes(b"not an image")
  assert predict.main([f"--workdir={finished_run}", str(broken), image]) == 1
  captured = capsys.readouterr()
  assert "broken.jpg" in captured.err
  assert captured.err.count("\n") == 1
  assert image in captured.out  # The other one is classified all the same.
