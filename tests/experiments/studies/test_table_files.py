import pytest

from experiments.studies import table_files


def table(top1, mean_per_class):
  classifier = {
    "top1": {"mean": top1, "deviation": 1.5},
    "mean_per_class": {"mean": mean_per_class, "deviation": 1.5},
  }
  row = {
    "name": "SOP",
    "classifiers": {"frozen": classifier},
    "paper": None,
    "suggested": {},
    "seconds": 60.0,
  }
  return {
    "dataset": "fmd",
    "backbone": "resnet50",
    "rows": [row],
    "shown": "frozen",
    "reference": "sop",
    "notes": [],
    "command": None,
  }


@pytest.mark.parametrize(
  ("mean_per_class", "column", "cell"),
  [
    (80.2 + 1e-9, "frozen: top-1, %", "**80.20 ± 1.50**"),
    (
      81.2,
      "frozen: top-1 / mean per class, %",
      "**80.20 ± 1.50** / 81.20 ± 1.50",
    ),
  ],
  ids=["balanced", "unbalanced"],
)
def test_the_mean_per_class_is_shown_where_it_differs(mean_per_class, column, cell):
  lines = table_files.markdown(table(80.2, mean_per_class)).splitlines()
  assert lines[2] == f"| method | {column} | frozen − SOP [95%] | paper |"
  assert lines[4] == f"| SOP | {cell} | – | – |"
