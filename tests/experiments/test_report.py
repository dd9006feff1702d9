from html import parser

import jax
import numpy as np
import pytest

from experiments import curves
from experiments import report
from pnjax import data
from pnjax import train


class Page(parser.HTMLParser):
  """Collects what a page has, and whether its tags are closed."""

  def __init__(self, text):
    super().__init__()
    self.headings, self.sources, self.open = [], [], []
    self.feed(text)
    self.close()

  def handle_starttag(self, tag, attrs):
    if tag == "img":
      self.sources.append(dict(attrs)["src"])
    elif tag != "meta":
      self.open.append(tag)

  def handle_endtag(self, tag):
    assert self.open.pop() == tag

  def handle_data(self, data):
    if self.open and self.open[-1] in ("h1", "h2"):
      self.headings.append(data)


@pytest.fixture
def workdir(config, tmp_path):
  config.head.learnable = ("eta_prime", "beta")
  train.train_and_evaluate(config, tmp_path / "run", jax.devices()[:1])
  return tmp_path / "run"


def test_page_has_everything_in_one_file(workdir, capsys):
  assert report.main([f"--workdir={workdir}"]) == 0
  assert capsys.readouterr().out.strip() == str(workdir / "report.html")
  text = (workdir / "report.html").read_text(encoding="utf-8")
  page = Page(text)
  assert page.open == []
  assert page.headings[:5] == ["run", "Result", "Curves", "Classes", "Confusion"]
  assert "Learned parameters" in page.headings
  assert "Eigenvalues of the pooled matrix" in page.headings
  assert page.headings[-2:] == ["Config", "Versions"]
  assert all(source.startswith("data:image/") for source in page.sources)
  assert "<td>eta_prime</td><td class='number'>100</td>" in text


def test_pictures_that_the_run_never_saw_are_not_shown(workdir, monkeypatch):
  def page():
    assert report.main([f"--workdir={workdir}"]) == 0
    return (workdir / "report.html").read_text(encoding="utf-8")

  arrays = dict(np.load(workdir / "predictions.npz"))
  arrays["prediction"] = np.roll(arrays["prediction"], 1)
  np.savez(workdir / "predictions.npz", **arrays)
  assert "<img class='thumbnail'" in page()
  monkeypatch.setattr(data.Split, "fingerprint", "of other pictures")
  assert "<img class='thumbnail'" not in page()
  assert "is not at hand any more" in page()


@pytest.mark.slow
def test_several_runs_on_a_page(workdir, tmp_path):
  output = tmp_path / "both.html"
  assert report.main([f"--workdir={workdir}"] * 2 + [f"--output={output}"]) == 0
  assert Page(output.read_text(encoding="utf-8")).headings.count("Confusion") == 2


def test_curves_of_many_runs_of_one_name(workdir):
  loss, _ = curves.figure([("run", workdir)] * 8).axes
  assert len(loss.lines) == 16


def test_mistakes_are_said_in_a_line(workdir, tmp_path, capsys):
  assert report.main([f"--workdir={tmp_path}"]) == 1
  assert "holds no run" in capsys.readouterr().err
  (workdir / "result.json").unlink()
  assert report.main([f"--workdir={workdir}"]) == 1
  assert "is not finished" in capsys.readouterr().err
