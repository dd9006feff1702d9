"""The folder of a run: what it was asked to do, and what came out."""

from collections.abc import Mapping
import json
import os
import pathlib
import platform
import subprocess
import tempfile
from typing import Any

import flax
import jax
import ml_collections
import optax

import pnjax
from pnjax.train.devices import Devices

_CONFIG = "config.json"
_CONTENTS = "contents.json"
# Fields that change where and how fast a run is computed, but not what comes out.
_IRRELEVANT = ("dataset.data_dir", "train.num_threads")


def prepare(
  workdir: str | os.PathLike,
  config: ml_collections.ConfigDict,
  contents: Mapping[str, str | None],
  devices: Devices,
) -> None:
  """Makes the folder and keeps in it what is asked for.

  Args:
    workdir: the folder, the same for all hosts.
    config: of the run.
    contents: fingerprints of what the config names: the pictures to learn from
      (`train`) and to evaluate on (`test`), and the `weights` to start from.
    devices: of the run; the first host writes.

  Raises:
    OSError: it cannot be written to.
    ValueError: it holds a run of another config, on other pictures, or from other
      weights.
  """
  workdir = pathlib.Path(workdir)
  try:
    workdir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=workdir):
      pass
  except OSError as error:
    raise OSError(f"the workdir {workdir} cannot be written to: {error}.") from error
  if devices.is_first and not (workdir / _CONFIG).exists():
    write_json(workdir / _CONTENTS, dict(contents))
    write_json(workdir / _CONFIG, config.to_dict())
  devices.wait()
  _compare(read_json(workdir / _CONFIG), config.to_dict(), workdir)
  kept = read_contents(workdir)
  if any(kept.get(split) != contents[split] for split in ("train", "test")):
    raise ValueError(
      f"{workdir} holds a run on other pictures: the dataset was prepared anew since. "
      "Take another workdir."
    )
  if kept.get("weights") != contents["weights"]:
    raise ValueError(
      f"{workdir} holds a run from other weights than those that "
      f"{config.backbone.weights} has now. Take another workdir."
    )


def relevant(fields: Mapping[str, Any]) -> dict[str, Any]:
  """Returns the fields of a config on which it depends what comes out, as in JSON."""
  flat = _flatten(json.loads(json.dumps(fields)))
  return {name: value for name, value in flat.items() if name not in _IRRELEVANT}


def _compare(old: dict, new: dict, workdir: pathlib.Path) -> None:
  old, new = relevant(old), relevant(new)
  different = [
    f"{name} was {old.get(name)!r} and is {new.get(name)!r}"
    for name in sorted(old | new)
    if old.get(name) != new.get(name)
  ]
  if different:
    raise ValueError(
      f"{workdir} holds a run with another config: {'; '.join(different)}. Continue it "
      "with its own config, or take another workdir."
    )


def _flatten(fields: dict, prefix: str = "") -> dict[str, Any]:
  flat = {}
  for name, value in fields.items():
    if isinstance(value, dict):
      flat |= _flatten(value, f"{prefix}{name}.")
    else:
      flat[prefix + name] = value
  return flat


def read_config(workdir: str | os.PathLike) -> ml_collections.ConfigDict:
  """Returns the config of a run."""
  path = pathlib.Path(workdir) / _CONFIG
  if not path.exists():
    raise FileNotFoundError(f"{workdir} holds no run: there is no {path.name} in it.")
  return ml_collections.ConfigDict(read_json(path)).lock()


def read_contents(workdir: str | os.PathLike) -> dict[str, str | None]:
  """Returns fingerprints of the pictures and the weights of a run; see `prepare`."""
  return read_json(pathlib.Path(workdir) / _CONTENTS)


def read_json(path: pathlib.Path) -> Any:
  """Reads what `write_json` wrote."""
  try:
    return json.loads(path.read_text(encoding="utf-8"))
  except ValueError as error:  # Text that is no UTF-8 is one, too.
    raise ValueError(f"{path} is damaged: {error}.") from error


def write_json(path: pathlib.Path, value: Any) -> None:
  """Writes a file whole or not at all."""
  write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def write_text(path: pathlib.Path, text: str) -> None:
  """Writes a file whole or not at all."""
  new = path.with_name(f".{path.name}.new")
  new.write_text(text, encoding="utf-8")
  os.replace(new, path)


def environment() -> dict[str, Any]:
  """Returns what a result was computed with."""
  return {
    "versions": {
      "python": platform.python_version(),
      "pnjax": pnjax.__version__,
      "jax": jax.__version__,
      "flax": flax.__version__,
      "optax": optax.__version__,
    },
    "git_revision": _git_revision(),
  }


def _git_revision() -> str | None:
  """Returns the commit of the code, with "-dirty" behind it if it was changed."""
  folder = pathlib.Path(__file__).parent
  command = ["git", "-C", str(folder), "describe", "--always", "--dirty", "--abbrev=40"]
  try:
    done = subprocess.run(command, capture_output=True, text=True, check=True)
  except (OSError, subprocess.CalledProcessError):
    return None
  return done.stdout.strip()
