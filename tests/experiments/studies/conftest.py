import pytest

from experiments.configs import methods


@pytest.fixture
def config_of(frozen_config):
  """A function from a method to its config, on a frozen AlexNet."""

  def config_of(method):
    config = frozen_config.copy_and_resolve_references()
    config.pooling.eta_prime = None
    config.pooling.alpha = None
    methods.apply(config, method)
    return config

  return config_of


@pytest.fixture(scope="session")
def feature_cache(tmp_path_factory):
  """A folder of cached features that tests share."""
  return tmp_path_factory.mktemp("features")
