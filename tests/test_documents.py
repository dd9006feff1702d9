"""What README and documents name exists, and their examples run."""

import importlib
import json
import pathlib
import re
import shlex
import subprocess
import sys

import pytest

from experiments.configs import methods
from pnjax import config as config_lib
from pnjax import ops

ROOT = pathlib.Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = ROOT / "docs"
PAGES = {
  str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
  for path in [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(DOCS.rglob("*.md")),
  ]
  if "_build" not in path.parts
}
TEXT = "\n".join(PAGES.values())
PACKAGES = (
  "data",
  "features",
  "models",
  "ops",
  "pretrained",
  "probe",
  "runs",
  "runtime",
  "train",
)

# Commands that parse with argparse, since they take no config.
ARGPARSE = ("export", "prepare", "weights", "predict", "refit", "report")

# Other commands that documents show.
KNOWN = (
  "cd",
  "git",
  "jupyter",
  "mypy",
  "pip",
  "pre-commit",
  "pytest",
  "ruff",
  "source",
  "sphinx-build",
)

# Parses the flags of all other commands as `python -m experiments.NAME` does, in one
# process, and prints those that fail.
PARSE = """
import json
import runpy
import sys

from absl.testing import flagsaver
from experiments import cli

cli.run = lambda main, required: cli._parse(sys.argv, required)
for command in json.load(sys.stdin):
  with flagsaver.flagsaver():
    sys.argv = command
    try:
      runpy.run_module(command[0], run_name="__main__")
    except SystemExit:
      print(*command)
"""


def commands():
  """The commands of all blocks of shell code, each split into words."""
  blocks = re.findall(r"```sh\n(.*?)```", TEXT, re.DOTALL)
  for line in "".join(blocks).replace("\\\n", " ").splitlines():
    for command in line.split("&&"):
      if command.strip():
        yield shlex.split(command, comments=True)


def experiments():
  """The module and the arguments of each `python -m experiments.NAME`."""
  for command in commands():
    if command[2:] and command[2].startswith("experiments."):
      yield command[2:]


def name_of(module):
  return module.removeprefix("experiments.")


def values_of(flag):
  prefix = f"--{flag}="
  return [a.removeprefix(prefix) for c in commands() for a in c if a.startswith(prefix)]


def test_every_command_is_of_a_known_kind():
  for command in commands():
    start, *_ = command
    assert start in KNOWN or re.fullmatch(
      r"python (-m (venv|(experiments|benchmarks)\.\w+)|\w+/\w+\.py).*",
      " ".join(command),
    ), command


@pytest.mark.parametrize(
  "command", [c for c in experiments() if name_of(c[0]) in ARGPARSE], ids=" ".join
)
def test_arguments_are_parsed(command):
  module, *args = command
  importlib.import_module(module)._parse(args)


def test_flags_are_parsed():
  absl = [c for c in experiments() if name_of(c[0]) not in ARGPARSE]
  assert {name_of(module) for module, *_ in absl} == {"main", "table", "sweep"}
  done = subprocess.run(
    [sys.executable, "-c", PARSE],
    cwd=ROOT,
    input=json.dumps(absl),
    capture_output=True,
    text=True,
  )
  assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_rows_are_methods():
  rows = {row for value in values_of("rows") for row in value.split(",")}
  assert rows
  assert rows - set(methods.METHODS) == set()


# Also those in the text and those that `experiments.sweep` takes.
@pytest.mark.parametrize(
  "field", sorted({*re.findall(r"--config\.([\w.]+)", TEXT), *values_of("param")})
)
def test_fields_exist(field):
  config_lib.check_field(config_lib.get_config(), field)


def test_numbers_are_those_of_their_pages():
  lines = [line for line in README.splitlines() if "](experiments/results/" in line]
  linked = [line for line in lines if line.startswith("|") and "![" not in line]
  assert linked
  for line in linked:
    (page,) = re.findall(r"\]\((experiments/results/\w+\.md)\)", line)
    known = re.findall(r"\d+\.\d+", (ROOT / page).read_text(encoding="utf-8"))
    assert set(re.findall(r"\d+\.\d+", line)) <= set(known), line


def test_speeds_are_those_of_their_page():
  table = README.split("## Speed")[1].split("\n\n")[2]
  page = (ROOT / "benchmarks/results/pooling.md").read_text(encoding="utf-8")
  speeds = re.findall(r"\| ([\d.]+) \|$", table, re.MULTILINE)
  assert len(speeds) == 6
  assert all(f"| {speed} |" in page for speed in speeds)


@pytest.mark.parametrize("page", PAGES)
def test_paths_exist(page):
  folders = "pnjax|experiments|benchmarks|notebooks|tests|docs"
  paths = set(re.findall(rf"(?<![\w/.-])(?:{folders})/[\w/.]*\w", PAGES[page]))
  # The site is built, not committed.
  paths = {path for path in paths if "NAME" not in path and path != "docs/_build"}
  missing = [path for path in paths if not (ROOT / path).exists()]
  # The site names notebooks without their ending.
  assert [p for p in missing if not (ROOT / f"{p}.ipynb").exists()] == []


@pytest.mark.parametrize("page", PAGES)
def test_links_resolve(page):
  links = re.findall(r"\]\(([^)\s]+)\)", PAGES[page])
  for link in links:
    target, _, anchor = link.partition("#")
    if re.match(r"\w+:", link):
      continue
    if page.startswith("docs") and target.endswith(".ipynb"):
      target = f"../../notebooks/{pathlib.Path(target).name}"  # Copied by the site.
      path = DOCS / "guides" / target
    else:
      path = (ROOT / page).parent / target if target else ROOT / page
    assert path.exists(), link
    assert not anchor or anchor in anchors(path.read_text(encoding="utf-8")), link


def anchors(text):
  """The anchors that headings of Markdown get."""
  headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
  return {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}


@pytest.fixture
def power_norms():
  """Removes the functions that an example adds."""
  before = dict(ops.POWER_NORMS)
  yield
  ops.POWER_NORMS.clear()
  ops.POWER_NORMS.update(before)


@pytest.mark.parametrize(
  "page", [page for page, text in PAGES.items() if "```python\n" in text]
)
def test_examples_run(page, power_norms):
  blocks = re.findall(r"```python\n(.*?)```", PAGES[page], re.DOTALL)
  names = {}
  for block in blocks:
    exec(compile(block, page, "exec"), names)


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_documented(package):
  page = PAGES[f"docs/api/{package}.md"]
  listed = re.findall(r"^\.\. (?:auto\w+|data):: (\w+)$", page, re.MULTILINE)
  module = importlib.import_module(f"pnjax.{package}")
  assert sorted(listed) == sorted(module.__all__)


@pytest.mark.parametrize("folder", ["benchmarks/results", "experiments/results"])
def test_every_result_is_shown(folder):
  published = {path.stem for path in (ROOT / folder).glob("*.md")} - {"README"}
  shown = re.findall(rf"\{{include\}} ../../{folder}/(\w+)\.md", TEXT)
  assert set(shown) == published
