import os
import pathlib
import time

import nbclient
import nbformat
import pytest

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "notebooks"
NAMES = (
  "operators",
  "cooccurrence_detector",
  "spatial_coordinates",
  "your_own_backbone",
)
SLOW = ("your_own_backbone",)

MAX_SECONDS = 120

# As `pyproject.toml` and `tests/conftest.py` have it for the tests of the library; what
# the kernel warns of itself is not ours.
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


@pytest.mark.parametrize(
  "name",
  [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in NAMES],
)
def test_notebook_runs(name, monkeypatch):
  # As in a clone where `pip install -e .` was run.
  monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
  notebook = read(name)
  notebook.cells.insert(0, nbformat.v4.new_code_cell(STRICT))
  client = nbclient.NotebookClient(
    notebook,
    timeout=MAX_SECONDS,
    kernel_name="python3",
    resources={"metadata": {"path": str(FOLDER)}},
  )
  start = time.monotonic()
  client.execute()
  assert time.monotonic() - start < MAX_SECONDS
  drawn = [o for cell in notebook.cells for o in cell.get("outputs", ()) if _is_png(o)]
  assert drawn


def _is_png(output):
  return "image/png" in output.get("data", {})
