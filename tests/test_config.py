from flax import traverse_util
import ml_collections
import pytest

from pnjax import _field_values
from pnjax import config as config_lib
from pnjax import data
from pnjax import models
from pnjax import train

NAN, INFINITY = float("nan"), float("inf")
NOT_WHOLE = ("abc", 1.5, True, NAN)
NOT_A_NUMBER = ("abc", True, NAN, INFINITY, [1])
NO_COUNT = (*NOT_WHOLE, 0, -1)
NOT_POSITIVE = (*NOT_A_NUMBER, 0.0, -1.0)
NO_SHARE = (*NOT_A_NUMBER, -0.1, 1.0)
NO_TEXT = (3, False, ["test"])
NO_BOOL = ("yes", 1, 0.0)

# Values that each field refuses.
BAD = {
  "seed": (*NOT_WHOLE, -1, 2**32),
  **dict.fromkeys(
    ("dataset.name", "dataset.data_dir", "dataset.split", "dataset.test_split"),
    NO_TEXT,
  ),
  "dataset.fold": NO_TEXT,
  "dataset.num_classes": NO_COUNT,
  "dataset.image_size": NO_COUNT,
  "dataset.num_crops": (*NO_COUNT, 2, 13),
  "dataset.resize_side": NO_COUNT,
  "dataset.augment": ("rotate", "", 1),
  "dataset.resize": ("stretch", None, 1),
  **dict.fromkeys(("backbone.name", "backbone.weights", "backbone.recipe"), NO_TEXT),
  "backbone.dtype": ("float16", "", 32),
  "backbone.remat": NO_BOOL,
  "backbone.batch_statistics": NO_BOOL,
  "pooling.order": ("2", 3, 0, -1, True),
  "pooling.power_norm": NO_TEXT,
  "pooling.spectral": NO_BOOL,
  **{f"pooling.{name}": NOT_POSITIVE for name in models.PARAMETER_FIELDS},
  "pooling.parameter": NOT_A_NUMBER,
  "pooling.lam": (*NOT_A_NUMBER, -1e-6),
  "pooling.beta": (*NOT_A_NUMBER, -0.1, 1.1),
  "pooling.num_pivots": (*NOT_WHOLE, 1, -1, 10**9),
  "pooling.alpha": (*NOT_A_NUMBER, -1.0),
  "pooling.sigma": NOT_POSITIVE,
  "pooling.rectify": NO_BOOL,
  "pooling.reduction": NO_COUNT,
  "pooling.trace_power": NOT_POSITIVE,
  "pooling.kappa": NOT_A_NUMBER,
  "pooling.dropout": NO_SHARE,
  "pooling.learnable": ("beta", 1, (1, 2), None),
  "classifier.rank": NO_COUNT,
  "classifier.weight_decay": (*NOT_A_NUMBER, -1.0),
  "classifier.dropout": NO_SHARE,
  "classifier.refit": NO_BOOL,
  "classifier.default": ("ridge", "", 1),
  "optim.name": ("lion", "", 1),
  "optim.learning_rate": NOT_POSITIVE,
  "optim.final_learning_rate": NOT_POSITIVE,
  "optim.decay": NO_SHARE,
  "optim.momentum": NO_SHARE,
  "optim.weight_decay": (*NOT_A_NUMBER, -1.0),
  "optim.clip_norm": NOT_POSITIVE,
  "train.batch_size": NO_COUNT,
  "train.num_epochs": (*NOT_WHOLE, -1, 10**9),
  "train.trainable": NO_TEXT,
  "train.num_microbatches": NO_COUNT,
  "train.label_smoothing": NO_SHARE,
  "train.cache_features": NO_BOOL,
  "train.cached_views": (*NO_COUNT, 10**9),
  "train.log_every": NO_COUNT,
  "train.eval_every": NO_COUNT,
  "train.checkpoint_every": NO_COUNT,
  "train.num_threads": (*NOT_WHOLE, -1, 10**9),
}
FIELDS = sorted(traverse_util.flatten_dict(config_lib.get_config().to_dict(), sep="."))


def with_value(field, value):
  """A config as a file may have it, without the types of the default config."""
  fields = config_lib.get_config().to_dict()
  *group, name = field.split(".")
  (fields[group[0]] if group else fields)[name] = value
  return ml_collections.ConfigDict(fields)


def test_every_field_says_what_it_allows():
  assert sorted(_field_values.ALLOWED) == sorted(BAD) == FIELDS


def test_the_default_values_are_allowed():
  config_lib.check_values(config_lib.get_config())


@pytest.mark.parametrize("field", FIELDS)
def test_bad_values_are_refused_with_the_field_and_what_it_allows(field):
  for value in BAD[field]:
    with pytest.raises(ValueError, match="expected") as error:
      config_lib.check_values(with_value(field, value))
    expected = config_lib.allowed_values(field)
    assert str(error.value) == f"{field} is {value!r}, expected {expected}."


def test_the_smallest_and_largest_values_are_allowed():
  for field, value in [
    ("seed", 2**32 - 1),
    ("pooling.beta", 1.0),
    ("pooling.beta", 1),  # Whole numbers are numbers.
    ("pooling.num_pivots", 2),
    ("pooling.dropout", "adaptive"),
    ("train.num_threads", 0),
    ("train.batch_size", 1),
  ]:
    config_lib.check_values(with_value(field, value))


def test_choices_are_those_of_the_packages_that_know_them():
  for field, choices in [
    ("dataset.augment", data._pipeline._AUGMENTS),
    ("dataset.resize", data._pipeline._RESIZES),
  ]:
    for value in choices:
      config_lib.check_value(field, value)


@pytest.mark.parametrize(
  ("fields", "message"),
  [
    ({"train.num_microbatches": 64}, "expected at most train.batch_size, 32"),
    ({"train.num_epochs": 0, "classifier.refit": False}, "0 without classifier.refit"),
    ({"train.cached_views": 2}, "which needs train.cache_features"),
    ({"train.cache_features": True, "train.trainable": "none"}, "weights is None"),
  ],
  ids=["microbatches", "epochs", "views", "cache"],
)
def test_fields_that_contradict_each_other_are_refused(fields, message):
  config = config_lib.get_config()
  config.update_from_flattened_dict(fields)
  with pytest.raises(ValueError, match=message):
    train.check_config(config, num_hosts=1)


def test_a_batch_that_hosts_cannot_share_is_refused():
  with pytest.raises(ValueError, match=r"is 32, expected a multiple of the 3 hosts"):
    train.check_config(config_lib.get_config(), num_hosts=3)
