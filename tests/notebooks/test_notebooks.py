import os
import pathlib

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
  "fine_tune_your_images",
)
QUICK = ("cooccurrence_detector",)

# Of all threads together, so that a busy machine does not fail the test: a notebook
# that needs no more takes less than two minutes on idle cores.
MAX_CPU_SECONDS = 120
CPU_SECONDS = "import time\n\nprint(time.process_time())"

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
  [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in NAMES],
)
def test_notebook_runs(name, monkeypatch):
  # As in a clone where `pip install -e .` was run,
  monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
  # and not compiled as tests are, fast to programs that are slow.
  monkeypatch.delenv("XLA_FLAGS")
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
  assert any(_is_picture(o) for c in notebook.cells for o in c.get("outputs", ()))


def _is_picture(output):
  return "image/png" in output.get("data", {})
