"""Imports between the packages go one way."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).parents[1]
# The packages that each package may import.
ALLOWED = {"ops": "", "config": "_field_values", "models": "ops", "data": "runtime"}
ALLOWED["runtime"] = "_cpu_threads"
ALLOWED["pretrained"] = "ops models runtime"
ALLOWED["features"] = f"{ALLOWED['pretrained']} pretrained data config"
ALLOWED["probe"] = f"{ALLOWED['features']} features"
ALLOWED["runs"] = f"{ALLOWED['probe']} probe"
ALLOWED["train"] = f"{ALLOWED['runs']} runs"


def imported(path):
  """Yields the packages of pnjax that a file imports, and `experiments`."""
  for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
    if isinstance(node, ast.ImportFrom) and node.module == "pnjax":
      yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom | ast.Import):
      names = [node.module] if isinstance(node, ast.ImportFrom) else node.names
      for name in (getattr(n, "name", n) or "" for n in names):
        if name.split(".")[0] in ("experiments", "benchmarks", "tests"):
          yield name
        if name.startswith("pnjax."):
          yield name.split(".")[1]


@pytest.mark.parametrize("package", ALLOWED)
def test_no_package_imports_one_above_it(package):
  files = list((ROOT / "pnjax" / package).glob("*.py")) or [
    ROOT / f"pnjax/{package}.py"
  ]
  for path in files:
    upward = set(imported(path)) - {package, *ALLOWED[package].split()}
    assert not upward, f"{path.relative_to(ROOT)} imports {', '.join(upward)}"


def test_every_package_has_a_rule():
  paths = (p for p in (ROOT / "pnjax").iterdir() if not p.name.startswith("_"))
  packages = {p.stem for p in paths if p.is_dir() or p.suffix == ".py"}
  assert packages == set(ALLOWED)
