"""Configuration of the site: `sphinx-build -W -b html docs docs/_build`.

Notebooks are shown as they are, without outputs, unless `$PNJAX_EXECUTED_NOTEBOOKS` is
a folder of executed ones, which `pytest -m slow tests/notebooks` writes.
"""

import os
import pathlib
import shutil

import pnjax

ROOT = pathlib.Path(__file__).parents[1]

project = "pnjax"
author = copyright = "The pnjax Authors"
release = version = pnjax.__version__

extensions = [
  "myst_nb",
  "sphinx.ext.autodoc",
  "sphinx.ext.autosummary",
  "sphinx.ext.napoleon",
  "sphinx.ext.viewcode",
  "sphinx_copybutton",
  "sphinx_design",
  "sphinx-mathjax-offline",
]
exclude_patterns = ["_build", "jupyter_execute"]
nitpicky = False

myst_enable_extensions = ["colon_fence", "dollarmath"]
myst_heading_anchors = 3
myst_links_external_new_tab = True
nb_execution_mode = "off"
# Pages of results begin with a heading of the third level, since others include them.
suppress_warnings = ["myst.header"]

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autosummary_generate = False
napoleon_numpy_docstring = False
napoleon_use_ivar = True
default_role = "py:obj"

copybutton_exclude = ".linenos, .gp, .go"
html_theme = "sphinx_book_theme"
html_title = "pnjax"
html_static_path = ["_static"]
html_css_files = ["pnjax.css"]
html_theme_options = {
  "repository_url": "https://github.com/pnjax/pnjax",
  "use_repository_button": True,
  "show_navbar_depth": 1,
  "home_page_in_toc": True,
  # Wide tables take the place of the page's contents.
  "secondary_sidebar_items": {
    "**": ["page-toc"],
    "results/convergence": [],
    "results/flower102": [],
    "results/fmd": [],
  },
}


def setup(app):
  """Copy the notebooks next to the documents, and let docstrings be plain text."""
  app.connect("builder-inited", _copy_notebooks)
  app.connect("autodoc-process-docstring", _escape)


def _copy_notebooks(app):
  executed = os.environ.get("PNJAX_EXECUTED_NOTEBOOKS")
  source = pathlib.Path(executed) if executed else ROOT / "notebooks"
  target = pathlib.Path(app.srcdir) / "notebooks"
  target.mkdir(exist_ok=True)
  for notebook in sorted(source.glob("*.ipynb")):
    if not _same(notebook, target / notebook.name):
      shutil.copy(notebook, target / notebook.name)


def _same(path, other):
  return other.exists() and path.read_bytes() == other.read_bytes()


def _escape(app, what, name, obj, options, lines):
  """Escape what is a norm or a product in a docstring, and markup elsewhere."""
  del app, what, name, obj, options
  for i, line in enumerate(lines):
    if not line.lstrip().startswith((">>>", "...", ":", "..")):
      parts = line.split("`")
      parts[::2] = [_without_markup(part) for part in parts[::2]]
      lines[i] = "`".join(parts)


def _without_markup(text):
  return text.replace("|", r"\|")
