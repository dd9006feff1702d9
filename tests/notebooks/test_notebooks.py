"""Notebooks are committed without outputs and run with the installed package alone."""

import ast
import importlib
import os
import pathlib
import re

import nbclient
import nbformat
import pytest

FOLDER = pathlib.Path(__file__).parents[2] / "notebooks"
NAMES = (
  "operators",
  "cooccurrence_detector",
  "spatial_coordinates",
  "your_own_backbone",
  "your_own_loop",
  "fine_tune_your_images",
)

# Environment variable with the folder of executed notebooks, for the site.
FOLDER_OF_PAGES = "PNJAX_EXECUTED_NOTEBOOKS"

# CPU seconds of all threads, so that the test does not fail on a loaded machine:
# a notebook within this limit takes less than two minutes on idle cores.
MAX_CPU_SECONDS = 120
CPU_SECONDS = "import time\n\nprint(time.process_time())"

# The settings of `pyproject.toml` and `tests/conftest.py` for the tests of the library;
# warnings of the kernel itself are not ours.
STRICT = """
import warnings

import jax

warnings.simplefilter("error")
warnings.filterwarnings("default", module="ipykernel")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
"""


def read(name):
  return nbformat.read(FOLDER / f"{name}.ipynb", as_version=nbformat.NO_CONVERT)


def code(name):
  return "\n".join(c.source for c in read(name).cells if c.cell_type == "code")


def test_every_notebook_is_tested():
  assert sorted(NAMES) == sorted(path.stem for path in FOLDER.glob("*.ipynb"))


@pytest.mark.parametrize("name", NAMES)
def test_notebook_is_committed_without_outputs(name):
  notebook = read(name)
  nbformat.validate(notebook)
  assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
  assert notebook.metadata.kernelspec.name == "python3"
  for cell in notebook.cells:
    assert cell.metadata == {}, cell.id
    if cell.cell_type == "code":
      assert cell.outputs == [], cell.id
      assert cell.execution_count is None, cell.id


@pytest.mark.parametrize("name", NAMES)
def test_notebook_needs_only_the_installed_package(name):
  text = "\n".join(cell.source for cell in read(name).cells)
  assert re.findall(r"sys\.path|import experiments|from experiments", text) == []


@pytest.mark.parametrize("name", NAMES)
def test_notebook_uses_names_that_exist(name):
  tree = ast.parse(code(name))
  modules = {
    alias.asname or alias.name: importlib.import_module(f"{node.module}.{alias.name}")
    for node in ast.walk(tree)
    if isinstance(node, ast.ImportFrom) and node.module == "pnjax"
    for alias in node.names
  }
  used = {
    (node.value.id, node.attr)
    for node in ast.walk(tree)
    if isinstance(node, ast.Attribute)
    and isinstance(node.value, ast.Name)
    and node.value.id in modules
  }
  assert used
  assert [u for u in sorted(used) if not hasattr(modules[u[0]], u[1])] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_notebook_runs(name, monkeypatch):
  monkeypatch.delenv("PYTHONPATH", raising=False)
  # Not compiled as tests are, quickly to slow programs.
  monkeypatch.delenv("XLA_FLAGS", raising=False)
  notebook = read(name)
  before, after = map(nbformat.v4.new_code_cell, (STRICT, CPU_SECONDS))
  notebook.cells = [before, *notebook.cells, after]
  client = nbclient.NotebookClient(
    notebook,
    timeout=600,
    kernel_name="python3",
    resources={"metadata": {"path": str(FOLDER)}},
  )
  client.execute()
  assert float(after.outputs[0].text) < MAX_CPU_SECONDS
  assert any(_is_figure(o) for c in notebook.cells for o in c.get("outputs", ()))
  if FOLDER_OF_PAGES in os.environ:
    notebook.cells = notebook.cells[1:-1]
    nbformat.write(
      notebook, pathlib.Path(os.environ[FOLDER_OF_PAGES]) / f"{name}.ipynb"
    )


def _is_figure(output):
  return "image/png" in output.get("data", {})
