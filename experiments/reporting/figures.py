"""The figures of a report, and images inside its file."""

import base64
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
import contextlib
import io
import pathlib
from typing import NamedTuple
import warnings

import matplotlib
from matplotlib import font_manager
from matplotlib import ticker
from matplotlib.figure import Figure
import matplotlib.style
import numpy as np
from PIL import Image

from experiments import cli
from pnjax import runs

# A figure of more classes shows only the worst, or no names.
_MAX_NAMES = 40
_MAX_NAME_LENGTH = 24
# A matrix of more classes has no counts in its cells.
_MAX_COUNTS = 12
_MAX_SIDE = 9  # Inches.
# Smaller eigenvalues, relative to the largest, are rounding errors.
_MIN_EIGENVALUE = 1e-9

_PIXELS_PER_INCH = 96  # As browsers count them.
_OVERSAMPLING = 2  # Sharp on phones and in print.
_ENLARGEMENT = 4  # A thumbnail that is clicked on fills a part of the screen.

# Fonts for scripts that matplotlib's own font lacks, as systems have them.
_FALLBACK_FONTS = (
  "Noto Sans CJK JP",
  "Noto Sans CJK SC",
  "Noto Sans JP",
  "Noto Sans SC",
  "Noto Sans KR",
  "Noto Sans Arabic",
  "Noto Sans Hebrew",
  "Noto Sans Devanagari",
  "Noto Sans Bengali",
  "Noto Sans Tamil",
  "Noto Sans Thai",
  "Source Han Sans",
  "WenQuanYi Zen Hei",
  "Hiragino Sans",
  "PingFang SC",
  "Apple SD Gothic Neo",
  "Yu Gothic",
  "Microsoft YaHei",
  "Malgun Gothic",
  "Nirmala UI",
  "Arial Unicode MS",
)


class InlineFigure(NamedTuple):
  """A figure inside the file that shows it.

  Attributes:
    source: The figure as a `data:` URL.
    width: Width in pixels of the page.
    height: Height in pixels of the page.
  """

  source: str
  width: int
  height: int


def inline_figure(figure: Figure) -> InlineFigure:
  """Draw a figure."""
  file = io.BytesIO()
  with _style():
    figure.savefig(file, format="png", dpi=_PIXELS_PER_INCH * _OVERSAMPLING)
  width, height = (round(x * _PIXELS_PER_INCH) for x in figure.get_size_inches())
  return InlineFigure(_data_url(file, "png"), width, height)


def thumbnail_url(image: np.ndarray, side: int) -> str:
  """Return a `data:` URL of an image, for a square that a click enlarges.

  Args:
    image: Image, uint8 `[H, W, 3]`.
    side: Side of the square before it is enlarged, in pixels of the page.
  """
  small = Image.fromarray(image)
  small.thumbnail((_ENLARGEMENT * side, _ENLARGEMENT * side))
  file = io.BytesIO()
  small.save(file, "JPEG", quality=85)
  return _data_url(file, "jpeg")


def _data_url(file: io.BytesIO, kind: str) -> str:
  return f"data:image/{kind};base64,{base64.b64encode(file.getvalue()).decode()}"


def curves(workdirs: Sequence[tuple[str, pathlib.Path]]) -> Figure:
  """Return the curves of runs, given their labels and folders."""
  with _style():
    return runs.curves_figure(workdirs)


def class_accuracies(accuracies: Mapping[str, float | None]) -> Figure:
  """Return a bar plot of accuracies, the worst first.

  Args:
    accuracies: Accuracy of each class in their order, None for one without images.
  """
  known = [(name, value) for name, value in accuracies.items() if value is not None]
  shown = sorted(known, key=lambda item: item[1])[:_MAX_NAMES]
  with _style():
    figure = Figure(figsize=(5.8, 0.26 * len(shown) + 0.9))
    ax = figure.subplots()
    bars = ax.barh(range(len(shown)), [value for _, value in shown], color="C2")
    ax.bar_label(bars, fmt="{:.1%}", padding=3, fontsize="small")
    numbers = {name: i for i, name in enumerate(accuracies)}
    ax.set_yticks(range(len(shown)), [_label(n, numbers[n]) for n, _ in shown])
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0, 1.15), xticks=np.linspace(0, 1, 6), xlabel="accuracy")
    ax.xaxis.set_major_formatter(ticker.PercentFormatter(1))
    ax.grid(False, axis="y")
    ax.invert_yaxis()
    ax.margins(y=0.01)
    if len(shown) < len(known):
      ax.set_title(f"The worst {len(shown)} of {len(known)} classes")
    _show_names_as_they_are(ax)
  return figure


def confusion_matrix(confusion: np.ndarray, class_names: Sequence[str]) -> Figure:
  """Return a plot of a confusion matrix, with the shares of each class.

  Args:
    confusion: Number of images by class and predicted class, `[C, C]`.
    class_names: Names of the classes.
  """
  num_classes = len(confusion)
  shares = confusion / np.maximum(confusion.sum(axis=1, keepdims=True), 1)
  side = min(3 + 0.25 * num_classes, _MAX_SIDE)
  with _style():
    figure = Figure(figsize=(side + 1, side))
    ax = figure.subplots()
    image = ax.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    percent = ticker.PercentFormatter(1)
    figure.colorbar(
      image, ax=ax, label="share of the class", shrink=0.8, format=percent
    ).outline.set_visible(False)
    ax.set(xlabel="predicted class", ylabel="class")
    ax.grid(False)
    if num_classes <= _MAX_NAMES:
      names = [_label(name, i) for i, name in enumerate(class_names)]
      ax.set_xticks(range(num_classes), names, rotation=90, fontsize="small")
      ax.set_yticks(range(num_classes), names, fontsize="small")
      _show_names_as_they_are(ax)
    if num_classes <= _MAX_COUNTS:
      for (row, column), count in np.ndenumerate(confusion):
        color = "white" if shares[row, column] > 0.5 else "black"
        ax.text(
          column, row, str(count), ha="center", va="center", color=color, size="small"
        )
  return figure


def spectra(eigenvalues: Mapping[str, np.ndarray]) -> Figure:
  """Return a plot of eigenvalues relative to the largest.

  Args:
    eigenvalues: Eigenvalues by their label.
  """
  with _style():
    figure = Figure(figsize=(5.8, 3.2))
    ax = figure.subplots()
    for label, values in eigenvalues.items():
      ax.plot(
        np.arange(1, len(values) + 1), np.maximum(values, _MIN_EIGENVALUE), label=label
      )
    ax.set(yscale="log", xlabel="index", ylabel="eigenvalue / largest eigenvalue")
    if min(values.min() for values in eigenvalues.values()) < _MIN_EIGENVALUE:
      ax.set_title(
        "Values below $10^{-9}$ are rounding errors, and drawn there", fontsize="small"
      )
    ax.legend()
  return figure


def can_draw(name: str) -> bool:
  """Return whether there are fonts for all characters of a name."""
  fonts = [font_manager.get_font(font_manager.findfont(f)) for f in _families()]
  return all(
    c.isspace() or any(font.get_char_index(ord(c)) for font in fonts) for c in name
  )


def _label(name: str, number: int) -> str:
  """Return the name of a class, or its number if its name would be boxes."""
  name = cli.printable(name)
  if not can_draw(name):
    return f"class {number}"
  if len(name) <= _MAX_NAME_LENGTH:
    return name
  return name[: _MAX_NAME_LENGTH - 1] + "…"


def _families() -> list[str]:
  installed = {font.name for font in font_manager.fontManager.ttflist}
  return ["DejaVu Sans", *(name for name in _FALLBACK_FONTS if name in installed)]


def _show_names_as_they_are(ax) -> None:
  """Keep dollar signs in names from being read as formulas."""
  for label in (*ax.get_xticklabels(), *ax.get_yticklabels()):
    label.set_parse_math(False)


@contextlib.contextmanager
def _style() -> Iterator[None]:
  """The style of all plots, with class names in the scripts that fonts exist for."""
  with (
    matplotlib.style.context("pnjax.plots"),
    matplotlib.rc_context({"font.family": _families()}),
    warnings.catch_warnings(),
  ):
    # The page also has the names as text, in the fonts of the browser.
    warnings.filterwarnings("ignore", "Glyph .* missing from", UserWarning)
    warnings.filterwarnings("ignore", ".* does not support .* natively", UserWarning)
    yield
