import pytest

from experiments.studies import convergence


def _row(name, *curves):
  outcomes = [{"top1": curve[-1][1], "curve": curve} for curve in curves]
  return {"name": name, "classifiers": {"softmax": {"outcomes": outcomes}}}


@pytest.mark.parametrize(
  "top1,want",
  [
    ([0.9, 0.9, 0.9], 1),
    ([0.1, 0.5, 0.9], 3),
    ([0.1, 0.895, 0.9], 2),
    ([0.895, 0.5, 0.905, 0.9], 3),  # It was there before, but did not stay.
    ([0.1, 0.95, 0.9], 3),  # Above counts as well: it has not settled.
  ],
)
def test_epochs_to_converge(top1, want):
  curve = [[epoch, value] for epoch, value in enumerate(top1, start=1)]
  assert convergence.epochs_to_converge(curve) == want


def test_a_note_has_the_epochs_of_each_split():
  slow, quick = [[2, 0.1], [4, 0.5], [5, 0.9]], [[2, 0.8], [4, 0.8], [5, 0.8]]
  (note,) = convergence.note([_row("SOP", slow, quick), _row("FOP", quick, quick)])
  assert note.endswith(": SOP 5, 2; FOP 2, 2.")


def test_runs_evaluated_once_have_no_curve():
  assert convergence.note([_row("SOP", [[8, 0.9]])]) == []
  frozen = {"name": "SOP", "classifiers": {"frozen": {"outcomes": [{"top1": 0.9}]}}}
  assert convergence.note([frozen]) == []
