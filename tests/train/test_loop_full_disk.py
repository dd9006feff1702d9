"""Runs on a small disk that becomes full, and continue when there is room."""

import os
import shutil
import subprocess
import sys

import pytest

from tests import small_runs

pytestmark = pytest.mark.slow

# Mounts a small disk for its own eyes only, runs a command there, and again with room.
_SCRIPT = """
mount -t tmpfs -o size="$SIZE"k tmpfs "$DISK"
"$@" 2> "$OUTPUT/errors"; echo $? > "$OUTPUT/status"
ls "$DISK"/run/checkpoints > "$OUTPUT/checkpoints"
mount -o remount,size=10m "$DISK"
"$@" 2> "$OUTPUT/later errors"; echo $? > "$OUTPUT/later status"
cp -r "$DISK"/run "$OUTPUT"
"""


def _can_mount(folder):
  if shutil.which("unshare") is None:
    return False
  command = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", str(folder)]
  return subprocess.run(command, capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def command(data_dir, tmp_path_factory):
  config = small_runs.make_config(data_dir)
  file = tmp_path_factory.mktemp("config") / "config.py"
  small_runs.write_config(config, file)
  return [sys.executable, "-m", "experiments.main", f"--config={file}"]


@pytest.fixture(scope="module")
def environment(compilation_cache):
  return os.environ | small_runs.caching(compilation_cache)


@pytest.fixture(scope="module")
def whole(command, environment, tmp_path_factory):
  """The folder of a run that has room."""
  workdir = tmp_path_factory.mktemp("whole") / "run"
  command = [*command, f"--workdir={workdir}"]
  subprocess.run(command, cwd=small_runs.ROOT, env=environment, check=True)
  return workdir


# Kilobytes of the disk, what does not fit, and what is complete then.
@pytest.mark.parametrize(
  ("size", "what", "complete"),
  [
    (8, "classes.txt cannot be written", []),
    (20, "records cannot be written", []),
    (100, "checkpoints cannot be written", []),
    (300, "checkpoints cannot be written", ["3"]),
    (430, "results cannot be written", ["3", "6"]),
  ],
)
def test_a_run_on_a_full_disk_continues_when_there_is_room(
  command, environment, whole, tmp_path, size, what, complete
):
  (tmp_path / "disk").mkdir()
  if not _can_mount(tmp_path / "disk"):
    pytest.skip("mounting is not permitted")
  disk, output = tmp_path / "disk", tmp_path
  subprocess.run(
    ["unshare", "-rm", "sh", "-c", _SCRIPT, "sh", *command, f"--workdir={disk}/run"],
    cwd=small_runs.ROOT,
    env=environment | {"SIZE": str(size), "DISK": str(disk), "OUTPUT": str(output)},
    check=True,
    timeout=2 * small_runs.PATIENCE,
  )
  (line,) = (output / "errors").read_text().splitlines()
  assert line.startswith("error: ")
  assert what in line
  assert "No space left on device" in line
  assert (output / "status").read_text() == "1\n"
  names = (output / "checkpoints").read_text().split()
  assert [name for name in names if name.isdecimal()] == complete
  assert (output / "later errors").read_text() == ""
  assert (output / "later status").read_text() == "0\n"
  small_runs.assert_same_run(output / "run", whole)
  # Nothing is left of what was not complete.
  names = {path.name for path in (output / "run").iterdir()}
  assert names == {path.name for path in whole.iterdir()}
