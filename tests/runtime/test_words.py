import pytest

from pnjax import runtime


@pytest.mark.parametrize(
  ("arguments", "expected"),
  [
    ((1, "epoch"), "1 epoch"),
    ((0, "epoch"), "0 epochs"),
    ((20, "epoch"), "20 epochs"),
    ((1, "class", "classes"), "1 class"),
    ((2, "class is", "classes are"), "2 classes are"),
  ],
)
def test_a_number_has_the_right_noun(arguments, expected):
  assert runtime.counted(*arguments) == expected
