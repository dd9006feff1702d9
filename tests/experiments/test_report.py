import collections
from html import parser
import json
import shutil
import subprocess
import sys
import types

import numpy as np
import pytest

from experiments import report
from experiments.reporting import figures
from experiments.reporting import page
from pnjax import models
from pnjax import runs
from tests import small_runs
from tests.small_disks import small_disk

# Two dark images are taken for light, and a striped one for dark.
_LABELS = np.repeat(np.arange(3), 5)
_PREDICTIONS = np.array([0, 1, 0, 1, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 0])

_SECTIONS = [
  "Classes",
  "Confusion",
  "Most confused classes",
  "Learned parameters",
  "Eigenvalues of the pooled matrix",
  "Config",
  "Versions",
]


class Page(parser.HTMLParser):
  """The parts of a page, whose tags must all be closed."""

  def __init__(self, text):
    super().__init__()
    self.headings, self.rows, self.images, self.links = [], [], [], []
    self.texts = collections.defaultdict(list)  # By their tags.
    self.ids = set()
    self._open = []
    self.feed(text)
    self.close()
    assert self._open == []

  def handle_starttag(self, tag, attrs):
    attrs = dict(attrs)
    assert tag not in ("script", "link", "iframe")
    self.ids.add(attrs.get("id"))
    if tag == "a":
      self.links.append(attrs["href"])
    if tag == "img":
      self.images.append(attrs)
    if tag == "tr":
      self.rows.append([])
    if tag not in ("img", "meta"):
      self._open.append((tag, []))

  def handle_endtag(self, tag):
    opened, parts = self._open.pop()
    assert opened == tag
    text = "".join(parts)
    if self._open:
      self._open[-1][1].append(text)
    text = text if tag == "pre" else " ".join(text.split())
    self.texts[tag].append(text)
    if tag in ("h1", "h2"):
      self.headings.append(text)
    if tag in ("td", "th"):
      self.rows[-1].append(text)

  def handle_data(self, data):
    if self._open:
      self._open[-1][1].append(data)

  def image_kinds(self):
    return collections.Counter(i["src"].partition(";base64,")[0] for i in self.images)


@pytest.fixture(scope="module")
def workdir(data_dir, compilation_cache, tmp_path_factory):
  """A finished run with known predictions and time, which tests only read."""
  config = small_runs.make_config(data_dir)
  config.pooling.learnable = ("eta_prime", "beta")
  config.train.num_epochs = 1
  workdir = tmp_path_factory.mktemp("report") / "run"
  small_runs.run(config, workdir)
  write_predictions(workdir, _PREDICTIONS)
  edit_json(workdir / "result.json", lambda r: r.update(wall_seconds=5432.1))
  return workdir


@pytest.fixture(scope="module")
def shown(workdir):
  return Page(page.render([workdir]))


@pytest.fixture
def copy(workdir, tmp_path):
  """A function that copies the run, for a test to change."""
  return lambda name: shutil.copytree(workdir, tmp_path / name)


def write_predictions(workdir, predictions):
  np.savez(
    workdir / "predictions.npz",
    label=_LABELS,
    refit=predictions,
    prediction=np.zeros_like(predictions),
  )


def edit_json(path, edit):
  fields = json.loads(path.read_text())
  edit(fields)
  path.write_text(json.dumps(fields))


def _anchor(heading, number):
  return f"{heading.lower().replace(' ', '-')}-{number}"


def test_page_has_everything_in_one_file(shown):
  assert shown.headings == ["run", "Result", "Curves", *_SECTIONS]
  links = [f"#{_anchor(heading, 0)}" for heading in ("Result", "Curves")]
  assert shown.links == [*links, *(f"#{_anchor(section, 1)}" for section in _SECTIONS)]
  assert {link.removeprefix("#") for link in shown.links} <= shown.ids
  (style,) = shown.texts["style"]
  assert "url(" not in style and "@import" not in style
  # Curves, classes, confusion matrix and eigenvalues; and three confused images.
  assert shown.image_kinds() == {"data:image/png": 4, "data:image/jpeg": 3}
  assert all(image["alt"] for image in shown.images)


def test_a_page_of_names_with_fonts_says_nothing_about_numbers(shown):
  assert not any("font" in text for text in shown.texts["p"])


def test_page_has_the_numbers_of_the_run(shown, workdir):
  result = small_runs.result(workdir)
  head, *results = shown.rows[:3]
  rows = shown.rows[3:]
  classifiers = {"softmax": result, "refit": result["refit"]}
  for row, (name, metrics) in zip(results, classifiers.items(), strict=True):
    assert dict(zip(head, row, strict=True)) == {
      "run": "run",
      "classifier": name,
      "top-1": f"{metrics['top1']:.2%}",
      "mean per class": f"{metrics['mean_per_class']:.2%}",
      "loss": f"{metrics['loss']:.4f}",
      "images": "15",
      "time": "1 h 31 min",
      "evaluated on": "folder, test",
      "method": "tiny_resnet, second-order + coordinates + sigme",
    }
  for name, accuracy in result["refit"]["per_class"].items():
    assert [name, "5", f"{accuracy:.2%}"] in rows
  for name, version in result["versions"].items():
    assert [name, version] in rows
  assert ["devices", "1 × cpu"] in rows
  (config,) = shown.texts["pre"]
  assert "\noptim.learning_rate = 0.001\n" in config
  assert '\nbackbone.name = "tiny_resnet"\n' in config


@pytest.mark.parametrize("split", ["validation", None], ids=["recorded", "earlier"])
def test_page_has_the_split_that_a_run_was_evaluated_on(copy, split):
  changed = copy("run")
  edit_json(changed / "result.json", lambda r: r.pop("evaluated_on"))
  if split:
    edit_json(changed / "result.json", lambda r: r.update(evaluated_on=split))
  head, row, *_ = Page(page.render([changed])).rows
  assert row[head.index("evaluated on")] == f"folder, {split or 'test'}"


def test_the_classifier_can_be_chosen(workdir):
  softmax = Page(page.render([workdir], "softmax"))
  assert "predictions are those of the softmax classifier" in softmax.texts["p"][0]
  # It takes every image for a dark one.
  pairs = softmax.texts["li"]
  assert pairs == ["light taken for dark 5 of 5", "striped taken for dark 5 of 5"]


def test_most_confused_classes_come_first(shown):
  pairs = shown.texts["li"]
  assert pairs == ["dark taken for light 2 of 5", "striped taken for dark 1 of 5"]
  files = [image["title"] for image in shown.images if "title" in image]
  assert files == ["dark/1.png", "dark/3.png", "striped/4.png"]


def test_learned_parameters_of_the_run(shown, workdir):
  learned = runs.load(workdir).variables["params"]["pooling"]
  eta_prime = np.exp(learned["log_eta_prime"])
  beta = np.clip(learned["beta"], 0, 1)
  assert ["eta_prime", "100", f"{eta_prime:.4g}"] in shown.rows
  assert ["beta", "0", f"{beta:.4g}"] in shown.rows


def test_learned_parameters_start_from_the_default():
  pooling = models.SecondOrderPooling(
    power_norm="gamma", spectral=True, rank=2, learnable=("power", "beta")
  )
  params = {"log_power": np.log(0.25), "beta": 1.5, "directions": np.zeros((4, 2))}
  trained = types.SimpleNamespace(
    model=types.SimpleNamespace(pooling=pooling),
    variables={"params": {"pooling": params}},
  )
  learned = list(page._learned_parameters(trained))
  assert learned == [("power", 0.5, 0.25), ("beta", 0, 1)]  # β as it is used.


def test_several_runs_on_a_page(copy, tmp_path, capsys):
  changed = copy("changed")
  edit_json(changed / "fingerprints.json", lambda c: c.update(test="other images"))
  odd = copy("<b> & 猫")
  edit_json(odd / "config.json", lambda c: c["dataset"].update(data_dir="/missing"))
  edit_json(odd / "model.json", lambda m: m.update(suggested={"alpha": 0.123456}))
  write_predictions(odd, _LABELS)

  output = tmp_path / "both.html"
  workdirs = [f"--workdir={changed}", f"--workdir={odd}"]
  assert report.main([*workdirs, f"--output={output}"]) == 0
  assert capsys.readouterr().out == f"{output}\n"
  both = Page(output.read_text(encoding="utf-8"))
  without_images = [s for s in _SECTIONS if not s.startswith("Eigenvalues")]
  all_correct = [s for s in without_images if s != "Most confused classes"]
  all_correct.insert(-2, "Suggested parameters")
  assert both.headings == [
    "changed and <b> & 猫", "Result", "Curves", "Side by side",
    "changed", *without_images, "<b> & 猫", *all_correct
  ]  # fmt: skip
  contents = ["#result-0", "#curves-0", "#side-by-side-0", "#run-1", "#run-2"]
  assert both.links == [*contents, "#run-1", "#run-1", "#run-2", "#run-2"]
  assert {link.removeprefix("#") for link in both.links} <= both.ids
  assert [row for row in both.rows if "/missing" in row[-1]] != []
  assert both.image_kinds() == {"data:image/png": 5}
  notes = [p for p in both.texts["p"] if not p.startswith("From here on")]
  changed_note, odd_note = notes[-2:]
  assert "are no longer available" in changed_note
  assert odd_note == "Every image was classified correctly."
  assert ["alpha", "0.1235"] in both.rows


def test_report_is_written_to_the_first_workdir(workdir, copy, monkeypatch, capsys):
  first = copy("first")
  monkeypatch.setattr(page, "render", lambda workdirs, _: f"{len(workdirs)} runs, 猫")
  assert report.main([f"--workdir={first}", f"--workdir={workdir}"]) == 0
  assert capsys.readouterr().out == f"{first / 'report.html'}\n"
  assert (first / "report.html").read_text(encoding="utf-8") == "2 runs, 猫"
  assert not (workdir / "report.html").exists()


def test_runs_of_one_name_are_told_apart_by_their_paths(tmp_path):
  a, b, c = (tmp_path / path for path in ("a/run", "b/run", "b/c"))
  assert page._names([a, c]) == ["run", "c"]
  assert page._names([a, b]) == [str(a), str(b)]
  assert page._names([tmp_path / "a" / ".." / "b"]) == ["b"]


def test_curves_of_many_runs_of_one_name(workdir):
  loss, top1 = figures.curves([("run", workdir)] * 8).axes
  assert len(loss.lines) == len(top1.lines) == 16


def test_curves_have_legends_and_per_cents(workdir):
  figure = figures.curves([("", workdir)])
  for ax in figure.axes:
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["train", "test"]
  figure.canvas.draw()
  labels = [t.get_text() for t in figure.axes[1].get_yticklabels()]
  assert labels[0] == "0%"
  assert "100%" in labels


def test_a_run_without_training_has_no_curves(copy):
  untrained = copy("untrained")
  records = (untrained / "metrics.jsonl").read_text().splitlines(keepends=True)
  tests = [line for line in records if json.loads(line)["split"] == "test"]
  assert 0 < len(tests) < len(records)
  (untrained / "metrics.jsonl").write_text("".join(tests))
  shown = Page(page.render([untrained]))
  assert "Curves" not in shown.headings
  assert "#curves-0" not in shown.links
  assert shown.image_kinds()["data:image/png"] == 3


def test_a_floor_of_eigenvalues_is_said():
  (ax,) = figures.spectra({"M": np.array([1, 0.1])}).axes
  assert ax.get_title() == ""
  (ax,) = figures.spectra({"M": np.array([1, 1e-12])}).axes
  assert "rounding errors" in ax.get_title()
  assert ax.lines[0].get_ydata()[1] == 1e-9


# Glyphs that no font has would warn, which is an error in tests.
def test_class_names_of_any_script_and_length(monkeypatch):
  monkeypatch.setattr(figures, "_FALLBACK_FONTS", ())  # As if none was installed.
  names = ["猫", "собака", "عربي", "हिन्दी", "$x$", "$\\bad{$", "long" * 10, "empty"]
  shown = ["class 0", *names[1:3], "class 3", *names[4:6], "longlonglonglonglonglon…"]
  accuracies = dict(zip(names, [*np.linspace(1, 0, 7), None], strict=True))
  bars = figures.class_accuracies(accuracies)
  matrix = figures.confusion_matrix(np.diag([1] * 7 + [0]), names)
  for figure in (bars, matrix):
    image = figures.inline_figure(figure)
    assert image.source.startswith("data:image/png;base64,")
    assert image.width == round(96 * figure.get_figwidth())
  ax = bars.axes[0]
  assert [t.get_text() for t in ax.get_yticklabels()] == shown[::-1]  # Worst first.
  assert [bar.get_width() for bar in ax.patches] == sorted(np.linspace(1, 0, 7))
  ax = matrix.axes[0]
  for labels in (ax.get_xticklabels(), ax.get_yticklabels()):
    assert [t.get_text() for t in labels] == [*shown, "empty"]


@pytest.fixture
def hostile(copy, monkeypatch):
  """The page of a run whose classes have names that do harm elsewhere."""
  monkeypatch.setattr(figures, "_FALLBACK_FONTS", ())
  names = ["<script>alert(1)</script>", "red\x1b[31m\u202egnp", "猫"]
  renamed = copy("renamed")
  (renamed / "classes.txt").write_text("\n".join([*names, ""]), encoding="utf-8")

  def rename(result):
    for metrics in (result, result["refit"]):
      accuracies = metrics["per_class"].values()
      metrics["per_class"] = dict(zip(names, accuracies, strict=True))

  edit_json(renamed / "result.json", rename)
  return page.render([renamed])


def test_class_names_cannot_add_html(hostile):
  assert "&lt;script&gt;alert(1)&lt;/script&gt;" in hostile
  assert "<script>" not in hostile  # `Page` would refuse the tag as well.
  Page(hostile)


def test_control_characters_in_class_names_are_escaped(hostile):
  assert "red\\x1b[31m\\u202egnp" in hostile
  assert not {"\x1b", "\u202e"} & set(hostile)


def test_class_names_without_a_font_are_numbers_in_plots(hostile):
  shown = Page(hostile)
  assert "猫 (class 2)" in [row[0] for row in shown.rows if row]
  assert any("that no installed font can draw" in text for text in shown.texts["p"])


def test_many_classes_have_only_the_worst_named():
  accuracies = {f"class {i}": i / 60 for i in range(60)}
  (ax,) = figures.class_accuracies(accuracies).axes
  assert ax.get_title() == "The worst 40 of 60 classes"
  assert [t.get_text() for t in ax.get_yticklabels()] == list(accuracies)[:40]
  ax, _ = figures.confusion_matrix(np.eye(60, dtype=int), list(accuracies)).axes
  assert len(ax.texts) == 0
  assert not {t.get_text() for t in ax.get_yticklabels()} & set(accuracies)


def test_confusion_matrix_has_shares_and_counts():
  confusion = np.array([[3, 1], [0, 0]])
  ax, _ = figures.confusion_matrix(confusion, ["a", "b"]).axes
  np.testing.assert_array_equal(ax.images[0].get_array(), [[0.75, 0.25], [0, 0]])
  assert [t.get_text() for t in ax.texts] == ["3", "1", "0", "0"]


def test_mean_spectrum():
  matrices = np.stack([np.diag([1.0, 4.0, -2.0]), np.zeros((3, 3))])
  np.testing.assert_allclose(page._mean_spectrum(matrices), [0.5, 0.25, 0.125])


def test_duration():
  assert [page._duration(s) for s in (0.4, 119)] == ["0 s", "119 s"]
  assert [page._duration(s) for s in (120, 3599)] == ["2 min", "1 h 0 min"]


def test_mistakes_are_reported_in_a_line(copy, workdir, tmp_path, capsys):
  def error(*args):
    assert report.main([f"--output={tmp_path / 'report.html'}", *args]) == 1
    captured = capsys.readouterr()
    *progress, line = captured.err.splitlines()
    assert all(text.startswith("making a page about ") for text in progress)
    assert captured.out == ""
    assert not (tmp_path / "report.html").exists()
    return line

  assert "holds no run" in error(f"--workdir={tmp_path}")
  assert "there is no folder" in error(
    f"--workdir={workdir}", f"--output={tmp_path / 'none' / 'report.html'}"
  )
  nowhere = tmp_path / "nowhere"
  assert error(f"--workdir={nowhere}") == (
    f"error: --workdir is {nowhere}, expected the folder of a run."
  )
  unfinished = copy("unfinished")
  (unfinished / "result.json").unlink()
  assert "is not finished" in error(f"--workdir={workdir}", f"--workdir={unfinished}")
  old = copy("old")
  edit_json(old / "config.json", lambda c: c.update(head=c.pop("pooling")))
  assert "holds a run of an earlier version" in error(f"--workdir={old}")


def test_a_report_on_a_read_only_disk(workdir, tmp_path, capsys):
  with small_disk(tmp_path) as remount_read_only:
    remount_read_only()
    output = tmp_path / "report.html"
    assert report.main([f"--workdir={workdir}", f"--output={output}"]) == 1
  assert capsys.readouterr().err == (
    f"error: the folder of the report {tmp_path} cannot be written to: Read-only file "
    "system; choose another file by --output.\n"
  )


def test_command_imports_nothing_slow():
  code = (
    "import sys; from experiments import report; "
    "sys.exit(bool({'jax', 'matplotlib', 'jinja2', 'numpy'} & set(sys.modules)))"
  )
  subprocess.run([sys.executable, "-c", code], cwd=small_runs.ROOT, check=True)
