import importlib.metadata
import json
import pathlib
import shutil
import subprocess
import sys

import numpy as np
from PIL import Image
import pytest

from experiments.configs import methods
import pnjax
from pnjax import data
from pnjax import pretrained
from pnjax import runs
from pnjax.runs import _exported_predict
from tests import small_runs
from tests.small_disks import small_disk

# What an exported model needs, and what these need themselves.
PACKAGES = (
  "jax",
  "jaxlib",
  "flatbuffers",
  "numpy",
  "pillow",
  "safetensors",
  "ml_dtypes",
  "opt_einsum",
  "scipy",
)
# Prints the probabilities of all images in a folder.
SCRIPT = """
import json
import pathlib
import sys

sys.path.insert(0, sys.argv[1])
import predict

config, function = predict.load()
for path in sorted(pathlib.Path(sys.argv[2]).iterdir()):
  print(json.dumps(function(predict.read(path, config)[None])[0].tolist()))
unwanted = {"pnjax", "flax", "cv2", "optax", "tensorflow", "tensorflow_datasets"}
assert not unwanted & set(sys.modules), unwanted & set(sys.modules)
"""


@pytest.fixture(scope="module")
def exported(finished_run, tmp_path_factory):
  return runs.export(finished_run, tmp_path_factory.mktemp("exported") / "model")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
  """Images from dark to light: of the input size, smaller and larger ones."""
  folder = tmp_path_factory.mktemp("images")
  rng = np.random.default_rng(0)
  for i, size in enumerate([(32, 32), (40, 30), (8, 90), (20, 20)]):
    pixels = rng.integers(0, 100, (*size, 3), dtype=np.uint8) + np.uint8(25 * i)
    Image.fromarray(pixels).save(folder / f"{i}.png")
  return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory):
  """A folder of packages with no others than an exported model needs."""
  folder = tmp_path_factory.mktemp("site")
  for package in PACKAGES:
    distribution = importlib.metadata.distribution(package)
    for name in {file.parts[0] for file in distribution.files}:
      source = pathlib.Path(distribution.locate_file(name))
      if source.exists() and name != "__pycache__" and ".." not in name:
        (folder / name).symlink_to(source)
  return folder


def run_alone(site, *arguments):
  """Runs Python with these packages only."""
  return subprocess.run(
    [sys.executable, "-S", *arguments],
    env={"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"},
    capture_output=True,
    text=True,
    timeout=small_runs.PATIENCE,
  )


def test_it_runs_without_pnjax_and_flax(exported, finished_run, images, site):
  missing = run_alone(site, "-c", "import flax")
  assert "No module named 'flax'" in missing.stderr
  done = run_alone(site, "-c", SCRIPT, str(exported), str(images))
  assert done.returncode == 0, done.stderr
  actual = np.array([json.loads(line) for line in done.stdout.splitlines()])
  config = json.loads((exported / "config.json").read_text())
  decoded = [data.decode(path) for path in sorted(images.iterdir())]
  trained = pnjax.load(finished_run)
  same = trained.predict([_exported_predict.prepare(x, config) for x in decoded])
  assert np.ptp(same, axis=0).max() > 1e-3  # The images differ.
  np.testing.assert_allclose(actual, same, atol=1e-5)
  # Resized by OpenCV: rounded differently by one level of 255 here and there.
  expected = trained.predict(decoded)
  np.testing.assert_allclose(actual, expected, atol=1e-2)
  np.testing.assert_allclose(actual[0], expected[0], atol=1e-5)  # Of the input size.


def test_the_script_prints_classes(exported, images, site):
  done = run_alone(site, str(exported / "predict.py"), str(images / "0.png"))
  assert (done.returncode, done.stderr) == (0, "")
  path, *lines = done.stdout.splitlines()
  assert path == str(images / "0.png")
  assert {line.split()[-1] for line in lines} == {"dark", "light", "striped"}


@pytest.mark.parametrize("file", ["weights.safetensors", "function.bin"])
def test_a_damaged_file_is_reported_in_a_line(exported, tmp_path, file):
  folder = shutil.copytree(exported, tmp_path / "model")
  content = bytearray((folder / file).read_bytes())
  content[-1] ^= 1
  (folder / file).write_bytes(content)
  with pytest.raises(ValueError, match=f"{file} is damaged; export the model again"):
    runs.load_exported(folder)
  if file == "weights.safetensors":
    with pytest.raises(ValueError, match="is damaged: its numbers have changed"):
      pretrained.load(folder)


@pytest.mark.parametrize("file", ["weights.safetensors", "function.bin", "config.json"])
def test_a_missing_file_is_reported_in_a_line(exported, tmp_path, file):
  folder = shutil.copytree(exported, tmp_path / "model")
  (folder / file).unlink()
  with pytest.raises(ValueError, match=f"{file} is missing.*; export the model again"):
    runs.load_exported(folder)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"class_names": []}'])
def test_a_damaged_config_is_reported_in_a_line(exported, tmp_path, content):
  folder = shutil.copytree(exported, tmp_path / "model")
  (folder / "config.json").write_text(content)
  with pytest.raises(ValueError, match=r"config\.json is missing or damaged; export"):
    runs.load_exported(folder)


@pytest.mark.parametrize("content", ["", "{", "[]", "{}"])
def test_a_folder_with_a_damaged_config_is_not_replaced(tmp_path, content):
  (tmp_path / "config.json").write_text(content)
  with pytest.raises(FileExistsError, match="exists and is no exported model"):
    runs.export(tmp_path / "run", tmp_path)


def test_a_run_is_not_replaced_by_an_export(finished_run):
  with pytest.raises(FileExistsError, match="exists and is no exported model"):
    runs.export(finished_run, finished_run)


def test_an_export_is_not_exported_again(exported, tmp_path):
  with pytest.raises(ValueError, match="is an exported model, expected the folder of"):
    runs.export(exported, tmp_path / "again")


def test_images_that_cannot_be_read_are_a_line_each(exported, images, site, tmp_path):
  good = str(images / "0.png")
  done = run_alone(
    site, str(exported / "predict.py"), "nowhere.jpg", str(tmp_path), good
  )
  assert done.returncode == 1
  assert done.stderr.splitlines() == [
    "error: nowhere.jpg cannot be read: No such file or directory",
    f"error: {tmp_path} cannot be read: Is a directory",
  ]
  assert done.stdout.startswith(f"{good}\n")


def test_the_script_explains_itself(exported, site):
  done = run_alone(site, str(exported / "predict.py"), "--help")
  assert (done.returncode, done.stderr) == (0, "")
  assert "python predict.py image.jpg" in done.stdout


def test_the_config_describes_the_model(exported, finished_run):
  config = json.loads((exported / "config.json").read_text())
  result = small_runs.result(finished_run)
  assert config["class_names"] == ["dark", "light", "striped"]
  assert (config["image_size"], config["classifier"]) == (32, "refit")
  assert config["accuracy"]["top1"] == result["refit"]["top1"]
  assert config["versions"]["pnjax"] == pnjax.__version__
  assert config["preprocessing"]["divisor"] == 127.5
  assert config["platforms"] == ["cpu", "cuda", "tpu"]


def test_the_softmax_layer_can_be_exported(finished_run, tmp_path, rng):
  folder = runs.export(finished_run, tmp_path / "model", "softmax")
  images = rng.integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
  config, function = runs.load_exported(folder)
  assert config["classifier"] == "softmax"
  expected = pnjax.load(finished_run, "softmax").predict(images)
  np.testing.assert_allclose(function(images), expected, atol=1e-5)


@pytest.mark.slow
def test_crops_and_eigenvalues_are_exported(config, tmp_path, rng):
  methods.apply(config, "sop_sc_spec_gamma")
  config.pooling.eta_prime = None
  config.dataset.num_crops, config.dataset.resize_side = 12, 40
  config.train.num_epochs = 0
  small_runs.run(config, tmp_path / "run")
  noise = rng.integers(0, 100, (60, 60, 3), dtype=np.uint8)
  images = noise + np.arange(0, 100, 10, dtype=np.uint8)[:, None, None, None]
  options, function = runs.load_exported(
    runs.export(tmp_path / "run", tmp_path / "model")
  )
  trained = pnjax.load(tmp_path / "run")
  expected = trained.predict(images)
  assert ((0.01 < expected) & (expected < 0.99)).any()
  same = function(np.stack([trained.transform(image) for image in images]))
  np.testing.assert_allclose(same, expected, atol=1e-5)
  crops = np.stack([_exported_predict.prepare(image, options) for image in images])
  np.testing.assert_array_equal(crops[:, 6:], crops[:, :6, :, ::-1])
  np.testing.assert_allclose(function(crops), expected, atol=3e-2)


def test_the_backbone_loads_as_pretrained_weights(exported, finished_run, rng):
  trained, weights = pnjax.load(finished_run), pretrained.load(exported)
  images = rng.integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)
  assert weights.recipe.preprocessing == trained.backbone.preprocessing
  features = weights.features(weights.preprocess(images))
  np.testing.assert_allclose(features, trained.features(images), rtol=1e-4, atol=1e-5)


def test_an_earlier_export_is_replaced_as_a_whole(finished_run, tmp_path):
  folder = tmp_path / "model"
  folder.mkdir()
  runs.export(finished_run, folder)
  (folder / "stale.txt").write_text("")
  runs.export(finished_run, folder, "softmax")
  names = {path.name for path in folder.iterdir()}
  assert names == {"config.json", "function.bin", "predict.py", "weights.safetensors"}
  assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_failed_export_leaves_the_earlier_one(
  exported, finished_run, tmp_path, monkeypatch
):
  folder = shutil.copytree(exported, tmp_path / "model")
  before = {path.name: path.read_bytes() for path in folder.iterdir()}

  def fail(*_):
    raise OSError("No space left on device")

  monkeypatch.setattr("pnjax.runtime.write_json", fail)
  with pytest.raises(OSError, match=f"cannot be written to {folder}: No space left"):
    runs.export(finished_run, folder, "softmax")
  assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
  assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_export_to_a_read_only_disk(finished_run, tmp_path):
  with small_disk(tmp_path) as remount_read_only:
    remount_read_only()
    expected = "Read-only.*Nothing was written or replaced: make room, or choose anoth"
    with pytest.raises(OSError, match=expected):
      runs.export(finished_run, tmp_path / "model")


def test_mistakes(finished_run, tmp_path):
  (tmp_path / "notes.txt").write_text("mine")
  with pytest.raises(FileExistsError, match="exists and is no exported model"):
    runs.export(finished_run, tmp_path)
  with pytest.raises(FileExistsError, match="a file, expected a folder"):
    runs.export(finished_run, tmp_path / "notes.txt")
  with pytest.raises(FileNotFoundError, match="holds no run"):
    runs.export(tmp_path, tmp_path / "model")
  unfinished = shutil.copytree(finished_run, tmp_path / "run")
  (unfinished / "result.json").unlink()
  with pytest.raises(FileNotFoundError, match="is not finished: it has no"):
    runs.export(unfinished, tmp_path / "model")
  assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("size", [(32, 32), (50, 40), (31, 200), (8, 90), (64, 96)])
@pytest.mark.parametrize(
  "options", [{"resize": "squash"}, {"resize": "center"}, {"num_crops": 12}], ids=str
)
def test_images_are_resized_as_in_evaluation(rng, size, options):
  defaults = {"image_size": 32, "resize": "squash", "num_crops": 1, "resize_side": 40}
  options = defaults | options
  image = rng.integers(0, 256, (*size, 3), dtype=np.uint8)
  expected = data.eval_transform(**options)(image).astype(int)
  actual = _exported_predict.prepare(image, options).astype(int)
  assert actual.shape == expected.shape
  as_it_is = size == (32, 32) and options["num_crops"] == 1
  assert abs(actual - expected).max() <= (0 if as_it_is else 1)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "L", "P"])
def test_images_are_decoded_as_in_evaluation(rng, tmp_path, mode):
  image = Image.fromarray(rng.integers(0, 256, (32, 32, 4), dtype=np.uint8))
  image.convert(mode).save(tmp_path / "image.png")
  config = {"image_size": 32, "resize": "squash", "num_crops": 1}
  actual = _exported_predict.read(tmp_path / "image.png", config)
  np.testing.assert_array_equal(actual, data.decode(tmp_path / "image.png"))


def test_images_of_16_bits_are_decoded_as_in_evaluation(rng, tmp_path):
  grey = rng.integers(0, 2**16, (32, 32), dtype=np.uint16)
  Image.fromarray(grey).save(tmp_path / "image.png")
  config = {"image_size": 32, "resize": "squash", "num_crops": 1}
  actual = _exported_predict.read(tmp_path / "image.png", config)
  np.testing.assert_array_equal(actual, data.decode(tmp_path / "image.png"))
  assert actual.max() - actual.min() > 200


def test_no_image_is_a_mistake(exported, site):
  done = run_alone(site, str(exported / "predict.py"))
  assert done.returncode == 1
  assert done.stderr.startswith("error: no image")
