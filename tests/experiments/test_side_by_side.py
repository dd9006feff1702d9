from experiments.reporting import side_by_side


def test_fields_that_differ():
  configs = [{"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"}]
  assert side_by_side.differing_fields(configs) == [
    ("b", ["2", "3"]),
    ("c", ["–", "4"]),
  ]


def test_classes_that_differ_most_come_first():
  first = {"cat": 0.5, "dog": 0.9, "cow": 1.0, "empty": None}
  second = {"cat": 0.6, "dog": 0.2, "cow": 1.0, "empty": 0.5}
  rows = side_by_side.differing_classes([first, second])
  assert rows == [("dog", [0.9, 0.2]), ("cat", [0.5, 0.6])]


def test_only_the_classes_that_differ_most_are_named():
  first = {str(i): 0.0 for i in range(20)}
  second = {str(i): i / 20 for i in range(20)}
  rows = side_by_side.differing_classes([first, second])
  assert [name for name, _ in rows] == [str(i) for i in range(19, 7, -1)]


def test_runs_with_different_classes_have_none_to_compare():
  assert side_by_side.differing_classes([{"cat": 1.0}, {"dog": 0.5}]) == []
