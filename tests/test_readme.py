"""The commands of the README are commands that there are, with flags that they have."""

import importlib
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
# Take no config, and so parse by argparse.
ARGPARSE = ("prepare", "weights", "predict", "report")


def commands():
  text = (ROOT / "README.md").read_text(encoding="utf-8")
  blocks = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
  for line in "".join(blocks).replace("\\\n", " ").splitlines():
    for command in line.split("&&"):
      if command.strip():
        yield command.strip()


def test_every_command_is_of_a_known_kind():
  kinds = ("python -m experiments.", "python -m benchmarks.", "pip install", "pytest")
  assert [c for c in commands() if not c.startswith(kinds)] == []


@pytest.mark.parametrize(
  "command", sorted({c for c in commands() if c.startswith("python -m experiments.")})
)
def test_commands_are_parsed(command):
  _, _, module, *args = shlex.split(command, comments=True)
  name = module.split(".")[1]
  if name in ARGPARSE:
    importlib.import_module(module)._parse(args)
    return
  subprocess.run(
    [sys.executable, "-m", module, *args, "--only_check_args"], cwd=ROOT, check=True
  )
