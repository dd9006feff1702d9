"""The page of faults names tests that exist."""

import ast
import collections
import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]
PAGE = ROOT / "docs" / "understanding" / "faults.md"


def faults():
  """The cells of each row of the page: fault, what happens, test."""
  for line in PAGE.read_text(encoding="utf-8").splitlines():
    if line.startswith("|") and not line.startswith(("| fault |", "|---")):
      # A vertical bar inside of a cell is escaped.
      yield [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def functions_of(path):
  tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
  return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_each_fault_names_a_test_that_exists():
  for cells in faults():
    assert len(cells) == 3, cells
    path, name = cells[2].strip("`").split("::")
    assert name in functions_of(path), cells


def test_no_fault_stands_twice():
  counts = collections.Counter(cells[0] for cells in faults())
  assert [fault for fault, count in counts.items() if count > 1] == []
