from pnjax import runs


def test_class_names_come_back_as_they_were(tmp_path):
  names = [
    "δένδρο",
    "木",
    "شجرة",
    "next\x85line",
    "line\u2028separator",
    "form\x0cfeed",
  ]
  runs.write_class_names(tmp_path, names)
  assert runs.read_class_names(tmp_path) == names
