import io
import json

import numpy as np
import pytest

from pnjax import config as config_lib
from pnjax import runs
from pnjax import runtime

NAMES = ["dark", "light"]
FINGERPRINTS = {"train": "a", "test": "b", "weights": None}
RESULT = {
  **{"loss": 0.5, "top1": 0.75, "mean_per_class": 0.75, "num_examples": 4},
  "per_class": {"dark": 0.5, "light": 1.0},
  **{"wall_seconds": 1.0, "devices": "1 × cpu", "versions": {}, "git_revision": None},
}


@pytest.fixture
def config():
  return config_lib.get_config()


@pytest.fixture
def workdir(tmp_path, config):
  """The files of a finished run, without its checkpoints."""
  runs.prepare_workdir(tmp_path, config, FINGERPRINTS, runtime.Devices())
  runs.write_class_names(tmp_path, NAMES)
  runs.write_model_info(tmp_path, runs.ModelInfo(None, {"alpha": 0.5}))
  predictions = {"softmax": np.array([0, 1, 1, 1])}
  runs.write_result(tmp_path, RESULT, np.array([0, 0, 1, 1]), predictions)
  return tmp_path


def edit_json(path, edit):
  fields = json.loads(path.read_text())
  edit(fields)
  path.write_text(json.dumps(fields))


def assert_one_line(error, *parts):
  message = str(error.value)
  assert "\n" not in message
  for part in parts:
    assert part in message


def test_class_names_come_back_as_they_were(tmp_path):
  names = [
    "δένδρο",
    "木",
    "شجرة",
    "next\x85line",
    "line\u2028separator",
    "form\x0cfeed",
  ]
  runs.write_class_names(tmp_path, names)
  assert runs.read_class_names(tmp_path) == names


def test_everything_comes_back(workdir, config):
  stored = json.loads(runs.read_config(workdir).to_json())
  assert stored == json.loads(config.to_json())
  assert runs.read_fingerprints(workdir) == FINGERPRINTS
  assert runs.read_model_info(workdir) == runs.ModelInfo(None, {"alpha": 0.5})
  assert runs.read_result(workdir) == RESULT
  labels, predictions = runs.read_predictions(workdir)
  assert (labels.tolist(), predictions.tolist()) == ([0, 0, 1, 1], [0, 1, 1, 1])


_NO_OBJECT = [b"[]", b"null", b'"text"', b"{", b"", b"\xff\xfe", b"[" * 10**5]


@pytest.mark.parametrize("content", _NO_OBJECT, ids=lambda content: str(content[:8]))
@pytest.mark.parametrize(
  ("name", "read"),
  [
    ("config.json", runs.read_config),
    ("fingerprints.json", runs.read_fingerprints),
    ("model.json", runs.read_model_info),
    ("result.json", runs.read_result),
  ],
)
def test_a_damaged_file_is_named_with_what_to_do(workdir, name, read, content):
  (workdir / name).write_bytes(content)
  with pytest.raises(ValueError, match="is damaged: ") as error:
    read(workdir)
  advice = {
    "config.json": "Begin the same run in a new workdir and copy its config.json to",
    "fingerprints.json": "new workdir and copy its fingerprints.json to here",
    "model.json": f"Remove model.json and result.json from {workdir}, if they are",
    "result.json": "Remove it, and the command that began the run writes it again.",
  }
  assert_one_line(error, str(workdir / name), advice[name])


def test_a_folder_without_a_config(tmp_path):
  with pytest.raises(FileNotFoundError, match=r"holds no run: it has no config\.json"):
    runs.read_config(tmp_path)


def test_a_missing_config_does_not_let_another_one_continue(workdir, config):
  (workdir / "config.json").unlink()
  (workdir / "checkpoints").mkdir()
  with pytest.raises(ValueError, match="has checkpoints, but no config") as error:
    runs.prepare_workdir(workdir, config, FINGERPRINTS, runtime.Devices())
  assert_one_line(error, "copy its config.json to here, or choose another workdir")
  assert not (workdir / "config.json").exists()


def test_a_config_that_lacks_a_group(workdir):
  edit_json(workdir / "config.json", lambda fields: fields.update(train=3))
  with pytest.raises(ValueError, match=r"run of an earlier version: .*train\.batch"):
    runs.read_config(workdir)


def test_missing_fingerprints(workdir):
  (workdir / "fingerprints.json").unlink()
  with pytest.raises(ValueError, match=r"has no readable fingerprints\.json") as error:
    runs.read_fingerprints(workdir)
  assert_one_line(error, "Begin the same run in a new workdir")


def test_missing_classes(workdir):
  (workdir / "classes.txt").unlink()
  with pytest.raises(FileNotFoundError, match=r"has no classes\.txt\. Remove") as error:
    runs.read_class_names(workdir)
  assert_one_line(error, "the command that began the run writes them again")


@pytest.mark.parametrize(
  "content",
  [b"", b"dark\n", b"dark\nlight\nmore\n", b"light\ndark\n", b"dark\nbright\n"],
  ids=["empty", "fewer", "more", "swapped", "renamed"],
)
def test_classes_that_were_edited(workdir, content):
  (workdir / "classes.txt").write_bytes(content)
  with pytest.raises(ValueError, match=r"has other classes than result\.json") as error:
    runs.read_class_names(workdir)
  assert_one_line(error, "the command that began the run writes them again")


def test_classes_that_are_no_text(workdir):
  (workdir / "classes.txt").write_bytes(b"\xff\xfe")
  with pytest.raises(ValueError, match=r"classes.txt is damaged: .*Remove classes.txt"):
    runs.read_class_names(workdir)


def test_a_missing_description_of_the_model(workdir):
  (workdir / "model.json").unlink()
  assert runs.read_model_info(workdir) is None
  with pytest.raises(FileNotFoundError, match=r"has no model\.json\. Remove mod"):
    runs.require_model_info(workdir)


@pytest.mark.parametrize(
  ("fields", "message"),
  [
    ({"recipe": None}, "has other fields than expected"),
    ({"recipe": None, "suggested": {}, "more": 1}, "has other fields than expected"),
    ({"recipe": "resnet1", "suggested": {}}, "names the unknown recipe 'resnet1'"),
    ({"recipe": None, "suggested": [1]}, r"suggests \[1\], expected an object"),
  ],
  ids=["missing", "unknown", "recipe", "suggested"],
)
def test_a_description_of_the_model_that_was_edited(workdir, fields, message):
  (workdir / "model.json").write_text(json.dumps(fields))
  with pytest.raises(ValueError, match=message) as error:
    runs.read_model_info(workdir)
  assert_one_line(error, "Remove model.json and result.json")


def test_an_unfinished_run_has_no_result(workdir):
  (workdir / "result.json").unlink()
  with pytest.raises(FileNotFoundError, match=r"is not finished: it has no result"):
    runs.read_finished(workdir)


@pytest.mark.parametrize("field", ["top1", "per_class", "wall_seconds", "versions"])
def test_a_result_that_lacks_a_field(workdir, field):
  edit_json(workdir / "result.json", lambda fields: fields.pop(field))
  with pytest.raises(ValueError, match=f"is damaged: it has no {field}. Remove it"):
    runs.read_result(workdir)


def test_a_result_whose_refit_lacks_a_field(workdir):
  edit_json(workdir / "result.json", lambda fields: fields.update(refit={"loss": 1}))
  with pytest.raises(ValueError, match=r"it has no refit.top1, refit.mean_per_class"):
    runs.read_result(workdir)


def _archive(path):
  np.savez(path, label=np.zeros(3))


def _array():
  file = io.BytesIO()
  np.save(file, np.zeros(3))
  return file.getvalue()


@pytest.mark.parametrize(
  "write",
  [
    lambda path: path.unlink(),
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(b"not an archive"),
    lambda path: path.write_bytes(path.read_bytes()[:200]),
    lambda path: path.write_bytes(path.read_bytes().replace(b"\1\0\0\0", b"\2\0\0\0")),
    _archive,
    lambda path: path.write_bytes(_array()),
  ],
  ids=["missing", "empty", "text", "truncated", "changed", "fewer", "array"],
)
def test_damaged_predictions(workdir, write):
  write(workdir / "predictions.npz")
  with pytest.raises(ValueError, match="npz is missing or damaged: ") as error:
    runs.read_predictions(workdir)
  assert_one_line(error, "Remove predictions.npz and result.json")


def test_a_full_disk_leaves_the_predictions_that_are_there(workdir, monkeypatch):
  def fail(path, **_):
    path.write_bytes(b"half")
    raise OSError(28, "No space left on device")

  monkeypatch.setattr(np, "savez", fail)
  with pytest.raises(OSError, match=r"results cannot be written to .*: \[Errno 28\]"):
    with runs.writing("results", workdir):
      runs.write_result(workdir, RESULT, np.zeros(1), {"softmax": np.zeros(1)})
  assert runs.read_predictions(workdir)[0].tolist() == [0, 0, 1, 1]


def test_a_full_disk_leaves_the_text_that_is_there(workdir, monkeypatch):
  (workdir / ".classes.txt.new").symlink_to("/dev/full")
  with pytest.raises(OSError, match=r"classes\.txt cannot be written: No space"):
    runs.write_class_names(workdir, ["other"])
  assert runs.read_class_names(workdir) == NAMES
