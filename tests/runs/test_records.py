import io
import json

import pytest

from pnjax import runs

STEPS = [(2, "train"), (4, "train"), (4, "test"), (6, "train"), (6, "test")]


def begin(folder):
  return runs.Records(folder, {"train": 0, "test": 0})


@pytest.fixture
def folder(tmp_path):
  """Records of six steps."""
  with begin(tmp_path) as written:
    for step, split in STEPS:
      written.write(step, split, {"loss": step / 3})
      written.write_timing(step, {"images_per_second": 1.5})
  return tmp_path


def steps(folder):
  return [(record["step"], record["split"]) for record in runs.read_records(folder)]


def test_records_come_back_to_the_last_bit(folder):
  assert steps(folder) == STEPS
  assert [record["loss"] for record in runs.read_records(folder)] == [
    step / 3 for step, _ in STEPS
  ]


def test_timings_have_a_file_of_their_own(folder):
  assert "second" not in (folder / "metrics.jsonl").read_text()
  lines = (folder / "timings.jsonl").read_text().splitlines()
  assert json.loads(lines[0]) == {"step": 2, "images_per_second": 1.5}


def test_records_after_the_checkpoint_are_forgotten(folder):
  with runs.Records(folder, {"train": 4, "test": 4}):
    pass
  assert steps(folder) == STEPS[:3]
  lines = (folder / "timings.jsonl").read_text().splitlines()
  assert [json.loads(line)["step"] for line in lines] == [2, 4, 4]


def test_an_evaluation_after_the_checkpoint_is_forgotten(folder):
  # Stopped after step 4 and before it was evaluated.
  with runs.Records(folder, {"train": 4, "test": 0}):
    pass
  assert steps(folder) == STEPS[:2]


@pytest.mark.parametrize("length", [1, 10, 39])
def test_a_line_that_was_not_finished_is_dropped(folder, length):
  path = folder / "metrics.jsonl"
  whole = path.read_text()
  line = '{"step": 8, "split": "train", "loss": 2.5}\n'
  path.write_text(whole + line[:length])
  assert steps(folder) == STEPS
  with runs.Records(folder, {"train": 100, "test": 100}) as written:
    written.write(8, "train", {"loss": 2.5})
  assert path.read_text() == whole + line


@pytest.mark.parametrize(
  "line",
  [b"junk", b"[]", b"3", b"{}", b'{"step": 3}', b"", b"\xff\xfe", b"[" * 10**5],
  ids=lambda line: str(line[:12]),
)
@pytest.mark.parametrize("read", [runs.read_records, begin], ids=["read", "resume"])
def test_a_line_that_is_no_record_is_named(folder, line, read):
  path = folder / "metrics.jsonl"
  whole = path.read_bytes()
  first, rest = whole.split(b"\n", 1)
  path.write_bytes(b"\n".join([first, line, rest]))
  with pytest.raises(ValueError, match=r"^line 2 of .*metrics\.jsonl is ") as error:
    read(folder)
  assert "expected a record. Correct it, or remove the line" in str(error.value)
  assert "\n" not in str(error.value)
  path.write_bytes(whole)
  assert steps(folder) == STEPS


def test_records_that_are_missing_where_a_run_resumes(folder):
  (folder / "metrics.jsonl").unlink()
  with pytest.raises(
    ValueError, match=r"metrics\.jsonl is missing, with the records of 4"
  ):
    runs.Records(folder, {"train": 4, "test": 4})
  (folder / "metrics.jsonl").touch()
  with runs.Records(folder, {"train": 4, "test": 4}):
    pass


class _FullDisk(io.StringIO):
  def write(self, _):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("name", ["_metrics", "_timings"])
def test_a_full_disk_is_reported_in_a_line(tmp_path, monkeypatch, name):
  message = r"^records cannot be written to .*Errno 28.* the same command continues\.$"
  with begin(tmp_path) as written:
    monkeypatch.setattr(written, name, _FullDisk())
    with pytest.raises(OSError, match=message):
      written.write(1, "train", {"loss": 0.5})
      written.write_timing(1, {"images_per_second": 1.5})


def test_what_was_flushed_is_there_without_a_close(tmp_path):
  with begin(tmp_path) as written:
    written.write(1, "train", {"loss": 0.5})
    written.flush()
    assert steps(tmp_path) == [(1, "train")]


def test_other_hosts_write_nothing(tmp_path, monkeypatch):
  monkeypatch.chdir(tmp_path)
  with begin(None) as written:
    written.write(1, "train", {"loss": 0.5})
    written.write_timing(1, {"images_per_second": 1.5})
    written.flush()
  assert not list(tmp_path.iterdir())


def test_a_run_that_has_not_begun_has_no_records(tmp_path):
  assert runs.read_records(tmp_path) == []
