import shutil

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest

from pnjax import runs
from pnjax import runtime
from pnjax.runs import _checkpoint_files

_FILES = ["arrays.npz", "position.json", "sha256.json"]


def state_at(step):
  return {"step": jnp.int32(step), "layer": {"kernel": step + jnp.arange(1000.0)}}


def save(folder, steps):
  with runs.Checkpoints(folder) as checkpoints:
    for step in steps:
      checkpoints.save(step, state_at(step), {"step": step, "data": {"next": step}})


def restore(folder):
  with runs.Checkpoints(folder, read_only=True) as checkpoints:
    return checkpoints.restore(state_at(0))


def devices():
  return runtime.Devices(jax.devices()[:1])


@pytest.fixture
def folder(tmp_path):
  """Checkpoints of steps 3 and 6."""
  save(tmp_path / "checkpoints", [3, 6])
  return tmp_path / "checkpoints"


@pytest.fixture
def read_only(folder):
  with runs.Checkpoints(folder, read_only=True) as checkpoints:
    yield checkpoints


def damage(path, how):
  content = bytearray(path.read_bytes())
  if how == "missing":
    path.unlink()
    return
  if how == "truncated":
    content = content[: len(content) // 2]
  if how == "empty":
    content = b""
  if how == "changed":
    content[len(content) // 2] ^= 1
  path.write_bytes(content)


def test_the_last_two_come_back(folder):
  state, position = restore(folder)
  assert position == {"step": 6, "data": {"next": 6}}
  jax.tree.map(np.testing.assert_array_equal, state, state_at(6))
  shutil.rmtree(folder / "6")
  assert restore(folder)[1]["step"] == 3
  with runs.Checkpoints(folder, read_only=True) as checkpoints:
    tree = checkpoints.read()
  np.testing.assert_array_equal(tree["layer"]["kernel"], 3 + np.arange(1000.0))


def test_older_ones_are_removed(folder):
  save(folder, [9])
  assert sorted(path.name for path in folder.iterdir()) == ["6", "9"]


def test_the_memory_of_the_state_may_be_reused_at_once(tmp_path, monkeypatch):
  write = _checkpoint_files._write
  value = np.zeros(10, np.float32)
  monkeypatch.setattr(runtime, "to_host", lambda _: {"x": value})

  def write_late(folder, contents):
    value[:] = 1  # As a step would that runs before the thread.
    write(folder, contents)

  monkeypatch.setattr(_checkpoint_files, "_write", write_late)
  with runs.Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(1, None, {})
  with runs.Checkpoints(tmp_path, read_only=True) as checkpoints:
    np.testing.assert_array_equal(checkpoints.read()["x"], np.zeros(10))


@pytest.mark.parametrize("how", ["missing", "truncated", "empty", "changed"])
@pytest.mark.parametrize("file", _FILES)
def test_a_damaged_file_is_named_and_the_one_before_counts(folder, file, how):
  damage(folder / "6/run" / file, how)
  with runs.Checkpoints(folder, read_only=True) as checkpoints:
    with pytest.raises(ValueError, match="the last checkpoint of the run is damaged: "):
      checkpoints.check()
  with runs.Checkpoints(folder) as checkpoints:
    (reason,) = checkpoints.remove_damaged(devices())
    assert checkpoints.latest_step == 3
    checkpoints.save(6, state_at(6), {})
  assert str(folder / "6/run") in reason
  assert "\n" not in reason
  jax.tree.map(np.testing.assert_array_equal, restore(folder)[0], state_at(6))


def test_any_changed_byte_is_noticed(folder, rng):
  path = folder / "6/run/arrays.npz"
  whole = path.read_bytes()
  for i in [0, len(whole) - 1, *rng.integers(0, len(whole), 50)]:
    content = bytearray(whole)
    content[i] ^= 1 << int(rng.integers(8))
    path.write_bytes(content)
    assert "has changed since it was written" in _checkpoint_files.damage(folder / "6")
  path.write_bytes(whole)
  assert _checkpoint_files.damage(folder / "6") is None


def test_a_checkpoint_without_its_files_is_damaged(folder):
  for path in (folder / "6").iterdir():
    shutil.rmtree(path) if path.is_dir() else path.unlink()
  with runs.Checkpoints(folder) as checkpoints:
    (reason,) = checkpoints.remove_damaged(devices())
    assert "sha256.json is missing" in reason
    assert checkpoints.latest_step == 3


def test_half_of_the_files_of_a_checkpoint(folder):
  files = sorted(path for path in (folder / "6").rglob("*") if path.is_file())
  for path in files[::2]:
    path.unlink()
  with runs.Checkpoints(folder) as checkpoints:
    assert len(checkpoints.remove_damaged(devices())) == 1
    assert checkpoints.latest_step == 3


def test_all_checkpoints_damaged(folder):
  for step in ("3", "6"):
    damage(folder / step / "run/arrays.npz", "changed")
  with runs.Checkpoints(folder) as checkpoints:
    with pytest.raises(ValueError, match=r"all .* are damaged: .*6.*; .*3.*Remove the"):
      checkpoints.remove_damaged(devices())
  assert {path.name for path in folder.iterdir()} == {"3", "6"}  # Nothing is lost.


def test_hosts_agree_on_what_is_damaged(folder, monkeypatch):
  answers = iter([True, False])
  monkeypatch.setattr(runtime.Devices, "any_host", lambda *_: next(answers))
  with runs.Checkpoints(folder) as checkpoints:
    (reason,) = checkpoints.remove_damaged(devices())
    assert "another host finds" in reason
    assert checkpoints.latest_step == 3


def test_no_checkpoint_yet(tmp_path):
  with runs.Checkpoints(tmp_path / "none", read_only=True) as checkpoints:
    with pytest.raises(FileNotFoundError, match="has no checkpoint; the command that"):
      checkpoints.check()
  assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
  "other",
  [
    {"step": jnp.int32(0)},
    {"step": jnp.int32(0), "layer": {"kernel": jnp.zeros(999)}},
    {"step": jnp.float32(0), "layer": {"kernel": jnp.zeros(1000)}},
    {"step": jnp.int32(0), "layer": {"bias": jnp.zeros(1000)}},
  ],
  ids=["fewer", "shape", "type", "name"],
)
def test_arrays_of_another_run_are_refused(read_only, other):
  with pytest.raises(ValueError, match="has other arrays than the run: "):
    read_only.restore(other)


def test_reading_warns_of_nothing(folder, caplog, capfd):
  with runs.Checkpoints(folder, read_only=True) as checkpoints:
    checkpoints.check()
    checkpoints.read()
  assert [record for record in caplog.records if record.levelname != "INFO"] == []
  assert capfd.readouterr() == ("", "")


def test_reading_leaves_a_checkpoint_that_is_being_written(folder):
  (folder / f"9{ocp.utils.TMP_DIR_SUFFIX}").mkdir()
  restore(folder)
  assert (folder / f"9{ocp.utils.TMP_DIR_SUFFIX}").exists()


def test_a_checkpoint_that_was_not_completed_is_removed(folder):
  incomplete = folder / f"9{ocp.utils.TMP_DIR_SUFFIX}"
  (incomplete / "run").mkdir(parents=True)
  with runs.Checkpoints(folder) as checkpoints:
    assert checkpoints.latest_step == 6
    assert not incomplete.exists()


def _fill_disk(patch):
  def fail(*_, **__):
    raise OSError(28, "No space left on device")

  patch.setattr(_checkpoint_files.np, "savez", fail)


_FULL = r"checkpoints cannot be written to .*: \[Errno 28\] No space left on device\. "


@pytest.mark.parametrize("moment", ["wait", "save", "close"])
def test_a_full_disk_is_reported_at_the_next_moment(
  folder, monkeypatch, caplog, moment
):
  def write_two(checkpoints):
    checkpoints.save(9, state_at(9), {})
    if moment == "wait":
      checkpoints.wait()
    if moment == "save":
      checkpoints.save(12, state_at(12), {})

  with monkeypatch.context() as patch:
    _fill_disk(patch)
    with pytest.raises(OSError, match=_FULL) as error:
      with runs.Checkpoints(folder) as checkpoints:
        write_two(checkpoints)
  assert "\n" not in str(error.value)
  assert not any(record.exc_info for record in caplog.records)  # No traceback.
  assert restore(folder)[1]["step"] == 6
  save(folder, [9])
  assert sorted(path.name for path in folder.iterdir()) == ["6", "9"]


@pytest.fixture
def of_orbax(tmp_path):
  """A checkpoint as earlier versions wrote it."""
  arrays = jax.tree.map(np.asarray, state_at(3))
  items = ocp.args.Composite(
    state=ocp.args.StandardSave(arrays), position=ocp.args.JsonSave({"step": 3})
  )
  with ocp.CheckpointManager(tmp_path) as manager:
    manager.save(3, args=items)
  return tmp_path


def test_a_checkpoint_of_an_earlier_version_is_read(of_orbax):
  state, position = restore(of_orbax)
  assert position == {"step": 3}
  jax.tree.map(np.testing.assert_array_equal, state, state_at(3))
  with runs.Checkpoints(of_orbax) as checkpoints:
    assert checkpoints.remove_damaged(devices()) == []


def test_a_damaged_checkpoint_of_an_earlier_version(of_orbax):
  (of_orbax / "3/state/_METADATA").write_text("{")
  with pytest.raises(
    ValueError, match=r"checkpoints?.*3 is damaged: .*Remove the fold"
  ):
    restore(of_orbax)
