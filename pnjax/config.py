"""Every field of a config, explained once.

The configs in `experiments/configs` start from these values. Any field can be set on
the command line: `--config.train.num_epochs=5`.
"""

from collections.abc import Iterable
from collections.abc import Mapping
import json
from typing import Any

from flax import traverse_util
import ml_collections
from ml_collections import config_dict

from pnjax import _field_values

# Fields and groups that had other names before.
_RENAMED = {
  "head": "pooling",
  "head.rank": "classifier.rank",
  "dataset.crop_side": "dataset.resize_side",
  "train.freeze": 'train.trainable ("all", "last_stage", "last_two_convs" or "none")',
  "train.accumulate": "train.num_microbatches",
}

# Fields that are gone, and why.
_REMOVED = {
  "pooling.normalize": "pooled vectors keep their length",
  "optim.head_multiplier": "optim.learning_rate is the rate of all layers",
  "optim.classifier_rate": "optim.learning_rate is the rate of all layers",
}

# Fields that change where and how fast a run is computed, but not its results.
_IRRELEVANT = ("backbone.remat", "dataset.data_dir", "train.num_threads")


def get_config() -> ml_collections.ConfigDict:
  """Return the default config."""
  config = ml_collections.ConfigDict()
  config.seed = 0  # Seed of the initial weights and of the order of images.

  config.dataset = dataset = ml_collections.ConfigDict()
  # One of `pnjax.data.DATASETS`, or a dataset that TFDS has prepared as array_record.
  dataset.name = ""
  dataset.data_dir = config_dict.placeholder(str)  # TFDS's usual folder if None.
  dataset.split = "train"  # Split to train on; TFDS syntax: "train+validation".
  # Split to evaluate on. If None, the counterpart of `split`: "half_1_test" for
  # "half_1_train"; otherwise "test" or, if there is none, "validation", unless `split`
  # has it.
  dataset.test_split = config_dict.placeholder(str)
  # "2/5" trains on all but the second of five stratified folds of `split`, and
  # evaluates on that one instead of `test_split`.
  dataset.fold = config_dict.placeholder(str)
  dataset.num_classes = config_dict.placeholder(int)  # Checked, unless None.
  dataset.image_size = 224  # Height and width of the backbone's input.
  # Number of crops: 1, or 12 for the corners, the centre and the whole image, each also
  # flipped.
  dataset.num_crops = 1
  dataset.resize_side = 256  # Shorter side of the image that the 12 crops are cut from.
  dataset.augment = "flip"  # "flip", "crop" (random crops and flips) or "none".
  dataset.resize = "squash"  # For evaluation: "squash", or "center" to crop.

  config.backbone = backbone = ml_collections.ConfigDict()
  backbone.name = "resnet50"  # One of `pnjax.models.BACKBONES`.
  # File of pretrained weights, the folder of a finished run or of an exported model
  # ("runs/fmd"), or the name of known weights that are downloaded ("resnet50",
  # "vgg16", ...). If None, weights start at random.
  backbone.weights = config_dict.placeholder(str)
  backbone.recipe = config_dict.placeholder(str)  # Needed if the file does not tell.
  backbone.dtype = "float32"  # Type of the computation; "bfloat16" on accelerators.
  # Whether the backward pass computes the inside of each stage again instead of keeping
  # it (`jax.checkpoint`), so that larger batches fit; a step takes longer.
  backbone.remat = False
  # Whether batch norm uses the statistics of each batch, synchronised over devices,
  # instead of those that came with the weights.
  backbone.batch_statistics = False

  config.pooling = pooling = ml_collections.ConfigDict()
  pooling.order = 2  # 1 for the average of features, 2 for their co-occurrence matrix.
  # A function in `pnjax.ops.POWER_NORMS` ("gamma", "maxexp", "asinhe", "sigme"), a
  # baseline ("signed_sqrt", "matrix_log", "newton_schulz_sqrt", "pade_sqrt"), or None.
  pooling.power_norm = config_dict.placeholder(str)
  pooling.spectral = False  # Whether it acts on eigenvalues instead of entries.
  # Parameter of the Power Normalization in use. If None, it is suggested from features
  # (`pnjax.ops.suggest_parameters`); 0.5 for Gamma.
  pooling.power = config_dict.placeholder(float)  # γ of Gamma.
  pooling.eta = config_dict.placeholder(float)  # η of MaxExp; fastest if an integer.
  pooling.gamma_prime = config_dict.placeholder(float)  # γ' of AsinhE.
  pooling.eta_prime = config_dict.placeholder(float)  # η' of SigmE.
  pooling.parameter = config_dict.placeholder(float)  # Of a function of your own.
  pooling.lam = 1e-6  # λ of Gamma and of the trace.
  pooling.beta = 0.0  # β, 0 to 1; must be 0 for element-wise Gamma and MaxExp.
  pooling.num_pivots = 0  # Pivots Z per coordinate; 0 for no spatial coordinates.
  pooling.alpha = config_dict.placeholder(float)  # Weight α; suggested if None.
  pooling.sigma = 0.3  # Bandwidth σ of the coordinates.
  pooling.rectify = True  # Whether features are rectified first; not those of a ViT.
  pooling.reduction = config_dict.placeholder(int)  # Channels of a 1×1 convolution.
  pooling.trace_power = config_dict.placeholder(float)  # γ of Remark 6.
  pooling.kappa = config_dict.placeholder(float)  # κ of Remark 6.
  # Share of the channels that are dropped in training, or "adaptive" (DropCov).
  pooling.dropout = config_dict.placeholder(object)
  pooling.learnable = ()  # Names of learned parameters: "eta_prime", "beta", ...

  config.classifier = classifier = ml_collections.ConfigDict()
  classifier.rank = config_dict.placeholder(int)  # Rank of its weights; full if None.
  classifier.weight_decay = 0.0  # Like `optim.weight_decay`, for the classifier.
  classifier.dropout = 0.0  # Share of the entries of pooled vectors that are dropped.
  # Whether the classifier is solved in closed form after training, as a second one
  # beside the softmax layer (`pnjax.probe.refit`).
  classifier.refit = True
  # Which of the two predicts, unless a command is told otherwise: "refit" or "softmax".
  classifier.default = "refit"

  config.optim = optim = ml_collections.ConfigDict()
  optim.name = "rmsprop"  # "rmsprop", "adam" or "sgd".
  # The learning rate of all layers falls once per epoch, in equal steps of its
  # logarithm.
  optim.learning_rate = 1e-4  # Rate of the first epoch.
  optim.final_learning_rate = 1e-6  # Rate of the last epoch.
  optim.decay = 0.99  # Decay of RMSprop's average of squares.
  optim.momentum = 0.0  # Momentum of RMSprop and SGD.
  # Decoupled weight decay, times the learning rate, for the kernels of the backbone and
  # the pooling.
  optim.weight_decay = 0.0
  optim.clip_norm = config_dict.placeholder(float)  # Limit on the gradient's norm.

  config.train = train = ml_collections.ConfigDict()
  # Images in a batch, over all devices and hosts; at most those to train on, or 32. In
  # a batch of up to 32, images may occur again.
  train.batch_size = 32
  # Passes over the images to train on. With 0, only the classifier is fit, in closed
  # form.
  train.num_epochs = 20
  # Layers of the backbone that train: "all", "last_stage" (not of AlexNet),
  # "last_two_convs" (not of a ViT), or "none" for a frozen backbone. Pooling and
  # classifier always train.
  train.trainable = "all"
  train.num_microbatches = 1  # Parts that a batch is computed in, to save memory.
  train.label_smoothing = 0.0  # Share of a label that is spread over all classes.
  # Whether the feature maps of the frozen stages are computed once and cached;
  # `dataset.augment` is ignored then.
  train.cache_features = False
  # Number of cached views of each image to train on. The first is the image as
  # evaluation sees it, the others are random parts of it, mirrored at random, which
  # `seed` decides. Each epoch sees one of them; the refit classifier sees all.
  train.cached_views = 1
  train.log_every = 10  # Steps between records of the loss.
  train.eval_every = 1  # Epochs between evaluations; the last epoch is evaluated.
  train.checkpoint_every = 1  # Epochs between checkpoints.
  train.num_threads = config_dict.placeholder(int)  # Threads that decode images.
  return config.lock()


def check_fields(config: ml_collections.ConfigDict) -> None:
  """Raise ValueError if a config lacks fields or has unknown ones."""
  known = get_config()
  names = traverse_util.flatten_dict(config.to_dict(), sep=".")
  expected = traverse_util.flatten_dict(known.to_dict(), sep=".")
  for name in names:
    if name not in expected:
      check_field(known, name)
  missing = [name for name in expected if name not in names]
  if missing:
    raise ValueError(
      f"the config has no {', '.join(missing)}; start from `pnjax.config.get_config()`."
    )


def check_values(config: ml_collections.ConfigDict) -> None:
  """Raise ValueError if a field has a value of another type, or out of its range."""
  defaults = traverse_util.flatten_dict(get_config().to_dict(), sep=".")
  for name, value in traverse_util.flatten_dict(config.to_dict(), sep=".").items():
    if value is not None or defaults[name] is not None:
      check_value(name, value)


def check_value(field: str, value: Any) -> None:
  """Raise ValueError if a field does not allow a value.

  Args:
    field: Path of the field, such as `"train.num_epochs"`.
    value: The value.
  """
  if not _field_values.ALLOWED[field].includes(value):
    raise ValueError(f"{field} is {value!r}, expected {allowed_values(field)}.")


def allowed_values(field: str) -> str:
  """Return the values that a field allows, in words.

  >>> allowed_values("train.batch_size")
  'a whole number, 1 or more'

  Args:
    field: Path of a field, or of a group of them.
  """
  if field in _field_values.ALLOWED:
    return _field_values.ALLOWED[field].words
  return f"one of its fields to be set, {field}.NAME"


def check_field(config: ml_collections.ConfigDict, field: str) -> None:
  """Raise ValueError if a config does not have a field.

  Args:
    config: The config.
    field: Path of the field, such as `"train.num_epochs"`.
  """
  group, path = config, "config"
  for name in field.split("."):
    if not isinstance(group, ml_collections.ConfigDict):
      raise ValueError(f"{path} is a field, so there is no {path}.{name}.")
    if name not in group:
      raise ValueError(_unknown_field(field, path, name, group))
    group, path = group[name], f"{path}.{name}"


def _unknown_field(field: str, path: str, name: str, known: Iterable[str]) -> str:
  former = explain_former_field(field)
  if former:
    return f"config has no field {field!r}: {former}."
  return f"{path} has no field {name!r}, expected one of {', '.join(sorted(known))}."


def explain_former_field(field: str) -> str | None:
  """Return what became of a field of earlier versions, and None for other fields.

  >>> explain_former_field("head.beta")
  'it is pooling.beta now'

  Args:
    field: Former path of the field, or only its last part.
  """
  fates = {old: f"it is {new} now" for old, new in _RENAMED.items()}
  fates |= {old: f"it is gone, since {reason}" for old, reason in _REMOVED.items()}
  if field in fates:
    return fates[field]
  group, _, name = field.partition(".")
  if group in _RENAMED:
    return f"it is {_RENAMED[group]}.{name} now"
  return next((fate for old, fate in fates.items() if old.endswith(f".{field}")), None)


def relevant_fields(fields: Mapping[str, Any]) -> dict[str, Any]:
  """Return the fields that results depend on, by their paths and as in JSON.

  Args:
    fields: A config, or some of its groups, as nested dictionaries.
  """
  flat = traverse_util.flatten_dict(json.loads(json.dumps(fields)), sep=".")
  return {name: value for name, value in flat.items() if name not in _IRRELEVANT}
