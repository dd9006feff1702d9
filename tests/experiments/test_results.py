"""Published results are what their commands wrote."""

import json

import pytest

from experiments.studies import sweep_files
from experiments.studies import table_contents
from experiments.studies import table_files
from tests.small_runs import ROOT

RESULTS = ROOT / "experiments" / "results"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda p: p.stem)
def test_a_page_is_made_of_its_data(path):
  made = json.loads(path.read_text(encoding="utf-8"))
  markdown = (sweep_files if "points" in made else table_files).markdown(made)
  assert path.with_suffix(".md").read_text(encoding="utf-8") == markdown
  assert made["command"].startswith("python -m experiments.")
  assert path.with_suffix(".png").exists()


@pytest.mark.parametrize(
  "path",
  [path for path in sorted(RESULTS.glob("*.json")) if "sweep" not in path.stem],
  ids=lambda p: p.stem,
)
def test_intervals_are_those_of_the_outcomes(path):
  table = json.loads(path.read_text(encoding="utf-8"))
  if "settings" not in table:
    pytest.skip("The outcomes were not published.")
  rows = table_contents.rows_of(table)
  made = table_contents.compare(rows, table["notes"], table["shown"])
  assert table_files.markdown(table | made) == table_files.markdown(table)


def test_everything_published_has_its_data():
  names = {path.stem for path in RESULTS.iterdir()} - {"README"}
  assert names == {path.stem for path in RESULTS.glob("*.json")}
  index = (RESULTS / "README.md").read_text(encoding="utf-8")
  assert all(f"({name}.md)" in index for name in names)
