from tests.train.conftest import compilation_cache
from tests.train.conftest import config
from tests.train.conftest import data_dir
from tests.train.conftest import frozen_config

__all__ = ["compilation_cache", "config", "data_dir", "frozen_config"]
