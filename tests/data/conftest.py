import pytest

from pnjax import data
from tests.data import archives


@pytest.fixture(scope="session")
def prepared(tmp_path_factory):
  """A folder of datasets, in which `folder` has 3 classes of 7 images."""
  root = tmp_path_factory.mktemp("prepared")
  archives.folder(root / "source", ("ant", "bee", "cat"), per_class=7)
  data.prepare("folder", root / "source", root / "data")
  return root / "data"


@pytest.fixture
def split(prepared):
  """All 21 images."""
  return data.open_split("folder", "all", prepared)


@pytest.fixture
def source(tmp_path):
  """An empty folder for an archive."""
  folder = tmp_path / "source"
  folder.mkdir()
  return folder


@pytest.fixture
def data_dir(tmp_path):
  """A folder for prepared datasets."""
  return tmp_path / "data"
