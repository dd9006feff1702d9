import json
import subprocess
import sys

import jax
import numpy as np
from PIL import Image
import pytest

from experiments import predict
from pnjax import data
from pnjax import train
from tests.train.runs import ROOT


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
  folder = tmp_path_factory.mktemp("pictures")
  rng = np.random.default_rng(0)
  for i in range(2):
    picture = rng.integers(0, 255, (40, 30, 3), dtype=np.uint8)
    Image.fromarray(picture).save(folder / f"{i}.png")
  return folder


@pytest.fixture
def workdir(config, tmp_path):
  config.train.num_epochs = 1
  train.train_and_evaluate(config, tmp_path / "run", jax.devices()[:1])
  return tmp_path / "run"


def test_predicts_files_and_folders(workdir, pictures, capsys):
  arguments = [f"--workdir={workdir}", str(pictures), str(pictures / "1.png")]
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


def test_predictions_are_those_of_the_run(workdir, config, tmp_path, capsys):
  split = data.open_split("folder", "test", config.dataset.data_dir)
  expected = np.load(workdir / "predictions.npz")["prediction"]
  files = []
  for i in range(len(split)):
    files.append(tmp_path / f"{i:02}.png")
    files[-1].write_bytes(split[i]["image"])
  assert predict.main([f"--workdir={workdir}", "--json", *map(str, files)]) == 0
  lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
  predicted = [split.class_names.index(line["top"][0]["class"]) for line in lines]
  np.testing.assert_array_equal(predicted, expected)


def test_nobody_has_to_read_all_of_it(workdir, pictures):
  arguments = [f"--workdir={workdir}", *[str(pictures)] * 20]
  command = [sys.executable, "-m", "experiments.predict", *arguments]
  pipe = subprocess.PIPE
  with subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe) as process:
    process.stdout.close()
    assert process.stderr.read() == b""
  assert process.returncode == 141


def test_mistakes_are_said_in_a_line(workdir, pictures, tmp_path, capsys):
  picture = str(pictures / "0.png")
  assert predict.main([f"--workdir={tmp_path / 'none'}", picture]) == 1
  assert "holds no run" in capsys.readouterr().err
  assert predict.main([f"--workdir={workdir}", "missing.jpg"]) == 1
  assert "there is no file missing.jpg" in capsys.readouterr().err
  broken = tmp_path / "broken.jpg"
  broken.write_bytes(b"not a picture")
  assert predict.main([f"--workdir={workdir}", str(broken), picture]) == 1
  captured = capsys.readouterr()
  assert "broken.jpg" in captured.err
  assert captured.err.count("\n") == 1
  assert picture in captured.out  # The others are classified all the same.
