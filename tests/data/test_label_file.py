import csv

import pytest

from pnjax import data
from pnjax.data._label_file import read_label_file
from tests.data import archives

# Greek, Chinese, Arabic, Hindi and an emoji.
NAMES = ("δένδρο", "木", "شجرة", "पेड़", "🌳")


@pytest.fixture
def write(source):
  """A function that writes a CSV file beside five images; returns its path."""
  for i in range(5):
    archives.write_image(source / f"images/{i}.jpg", i)

  def write(*rows, header=("path", "label"), encoding="utf-8"):
    path = source / "labels.csv"
    with open(path, "w", encoding=encoding, newline="") as file:
      csv.writer(file).writerows([header, *rows])
    return path

  return write


def rows_of(archive, split):
  return [(i.file, archive.class_names[i.label]) for i in archive.stored[split]]


def test_each_class_is_divided(write, source, data_dir):
  rows = [(f"images/{i}.jpg", ("ant", "bee")[i % 2]) for i in range(5)]
  data.prepare("folder", write(*rows), data_dir)
  splits = [data.open_split("folder", name, data_dir) for name in ("train", "test")]
  assert sorted(len(split) for split in splits) == [2, 3]
  found = {e["file"]: e for split in splits for e in split}
  for file, name in rows:
    assert splits[0].class_names[found[file]["label"]] == name
    assert found[file]["image"] == (source / file).read_bytes()


def test_splits_are_those_of_the_file(write):
  rows = [
    ("images/0.jpg", "bee", "Train"),
    ("images/1.jpg", "ant", "train"),
    ("./images/2.jpg", "bee", "val"),
    ("images/3.jpg", "ant", "test"),
  ]
  archive = read_label_file(write(*rows, header=("path", "label", "split")))
  assert list(archive.stored) == ["train", "validation", "test"]
  train = [("images/0.jpg", "bee"), ("images/1.jpg", "ant")]
  assert rows_of(archive, "train") == train
  assert rows_of(archive, "validation") == [("images/2.jpg", "bee")]


def test_other_columns_are_ignored(write, source):
  rows = [("x", "ant", str(source / "images/0.jpg")), ("y", "ant", "images/1.jpg")]
  archive = read_label_file(write(*rows, header=("note", " label", "path ")))
  assert archive.class_names == ("ant",)
  assert len(archive.images) == 2


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_class_names_in_any_script_are_kept(write, data_dir, encoding):
  rows = [(f"images/{i}.jpg", name, "train") for i, name in enumerate(NAMES)]
  path = write(*rows, header=("path", "label", "split"), encoding=encoding)
  data.prepare("folder", path, data_dir)
  split = data.open_split("folder", "all", data_dir)
  assert split.class_names == tuple(sorted(NAMES))


@pytest.mark.parametrize(
  ("rows", "header", "message"),
  [
    (
      [("images/0.jpg", "ant")],
      ("file", "class"),
      "first line of .* is 'file,class'",
    ),
    ([], ("path", "label"), "has no images, expected a line for each"),
    (
      [("images/0.jpg", " ")],
      ("path", "label"),
      r"has 1 line without a value, .*: line 2 \(label\)",
    ),
    (
      [("images/0.jpg",)],
      ("path", "label"),
      r"has 1 line without a value, .*: line 2 \(label\)",
    ),
    (
      [("images/0.jpg", "ant"), ("images/../images/0.jpg", "bee")],
      ("path", "label"),
      r"1 image that is listed again, .*: images/../images/0.jpg \(lines 2 and 3\)",
    ),
    (
      [("images/0.jpg", "ant", "dev")],
      ("path", "label", "split"),
      r"1 unknown split, expected train, validation, test: 'dev' \(line 2\)",
    ),
    (
      [("images/0.jpg", "ant"), ("images/9.jpg", "bee")],
      ("path", "label"),
      r"has 1 image that is not there, .*: images/9.jpg \(line 3\)",
    ),
    (
      [("images/0.jpg", "ant", "test"), ("images/1.jpg", "bee", "test")],
      ("path", "label", "split"),
      "there are images of test only, expected some of train",
    ),
    (
      [("images/0.jpg", "ant", "val"), ("images/1.jpg", "bee", "test")],
      ("path", "label", "split"),
      "there are images of validation and test only, expected some of train",
    ),
    (
      [("images/0.jpg", "ant", "")],
      ("path", "label", "split"),
      r"has 1 line without a value, .*: line 2 \(split\)",
    ),
    ([("images/0.jpg",)], ("path",), "first line of .* is 'path', expected the names"),
    (
      [("images/0.jpg", "ant")],
      ("path", "path", "label"),
      "first line of .* is 'path,path,label'",
    ),
    (
      [("images/\0.jpg", "ant"), ("images/\x1b[31m.jpg", "ant")],
      ("path", "label"),
      r"not there, .*: images/\\x00.jpg \(line 2\), images/\\x1b\[31m.jpg \(line 3\)",
    ),
    (
      [("x" * 5000, "ant")],
      ("path", "label"),
      "has 1 image that is not there",
    ),
    (
      [("images", "ant")],
      ("path", "label"),
      r"has 1 image that is not there, .*: images \(line 2\)",
    ),
    (
      [("images/0.jpg", "x" * 200_000)],
      ("path", "label"),
      "cannot be read .field larger than field limit",
    ),
    (
      [("images/0.jpg", "ant", "train"), ("images/1.jpg", "木", "test")],
      ("path", "label", "split"),
      "test has classes that train does not have: 木; test lacks ant of train",
    ),
  ],
)
def test_mistakes(write, rows, header, message):
  with pytest.raises(ValueError, match=message) as raised:
    read_label_file(write(*rows, header=header))
  assert "\n" not in str(raised.value)


def test_a_file_in_another_encoding_is_refused(write):
  path = write(("images/0.jpg", "höhle"), encoding="latin-1")
  with pytest.raises(ValueError, match=r"cannot be read .* CSV with commas, in UTF-8"):
    read_label_file(path)


def test_an_empty_file_is_refused(source):
  (source / "labels.csv").write_bytes(b"")
  with pytest.raises(ValueError, match=r"first line of .* is '', expected the names"):
    read_label_file(source / "labels.csv")


def test_other_bytes_are_refused(source):
  (source / "labels.csv").write_bytes(archives.jpeg(0))
  with pytest.raises(ValueError, match=r"cannot be read .* CSV with commas, in UTF-8"):
    read_label_file(source / "labels.csv")


def test_quotes_that_do_not_end_are_refused(source):
  (source / "labels.csv").write_text('path,label\n"images/0.jpg,ant\n')
  with pytest.raises(ValueError, match=r"cannot be read \(unexpected end of data\)"):
    read_label_file(source / "labels.csv")


def test_images_may_be_outside_of_the_folder_of_the_file(source, tmp_path):
  """Only their contents are used, so that this does no harm."""
  archives.write_image(tmp_path / "elsewhere/0.jpg", 0)
  archives.write_image(source / "1.jpg", 1)
  path = source / "labels.csv"
  path.write_text("path,label,split\n../elsewhere/0.jpg,ant,train\n1.jpg,bee,train\n")
  archive = read_label_file(path)
  assert [image.file for image in archive.images] == ["../elsewhere/0.jpg", "1.jpg"]
  assert archive.images[0].read() == archives.jpeg(0)


def test_broken_images_of_a_label_file_say_what_to_do(write, source, data_dir):
  rows = [(f"images/{i}.jpg", ("ant", "bee")[i % 2]) for i in range(5)]
  (source / "images/3.jpg").write_bytes(b"")
  with pytest.raises(ValueError, match=r"^1 of 5 images is broken; .* in the CSV file"):
    data.prepare("folder", write(*rows), data_dir)


def test_a_label_file_without_images_to_evaluate_on_is_reported(
  write, data_dir, caplog
):
  rows = [(f"images/{i}.jpg", ("ant", "bee")[i % 2], "train") for i in range(4)]
  path = write(*rows, header=("path", "label", "split"))
  data.prepare("folder", path, data_dir)
  (message,) = caplog.messages
  assert message.startswith("there are no images to evaluate on: add a folder (or line")
