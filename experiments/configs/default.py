"""Every field of a config, explained once.

The other configs take these values and change what their dataset needs. Any field can
be set on the command line as well: `--config.train.num_epochs=5`.
"""

import ml_collections
from ml_collections import config_dict


def get_config() -> ml_collections.ConfigDict:
  """Returns the values that the other configs start from."""
  config = ml_collections.ConfigDict()
  config.seed = 0  # Of the weights that start at random, and of the order of pictures.

  config.dataset = dataset = ml_collections.ConfigDict()
  dataset.name = ""  # One of `pnjax.data.DATASETS`.
  dataset.data_dir = config_dict.placeholder(str)  # TFDS's usual folder if None.
  dataset.split = "train"  # Trained on; TFDS's syntax, such as "train+validation".
  # Evaluated on. If None, the counterpart of `split`: "test", or "half_1_test" of
  # "half_1_train".
  dataset.test_split = config_dict.placeholder(str)
  dataset.num_classes = config_dict.placeholder(int)  # Checked, unless None.
  dataset.image_size = 224  # Height and width of what the network gets.
  dataset.num_crops = 1  # 12: corners, centre, whole picture, and their mirrors.
  dataset.crop_side = 256  # Shorter side of the picture that 12 crops are cut from.
  dataset.augment = "resize"  # "resize" or "crop", both with mirrors, or "none".
  dataset.resize = "squash"  # For evaluation: "squash", or "center" to crop.

  config.backbone = backbone = ml_collections.ConfigDict()
  backbone.name = "resnet50"  # "resnet50", "alexnet" or "tiny_resnet".
  # A file, or "resnet50" or "alexnet" for what `experiments.weights fetch` gets;
  # None for weights that start at random.
  backbone.weights = config_dict.placeholder(str)
  backbone.recipe = config_dict.placeholder(str)  # Where the file does not say it.
  backbone.dtype = "float32"  # Of the computation; "bfloat16" on accelerators.
  # Whether batch norm learns from the statistics of each batch (synchronised over
  # devices) instead of keeping those of the weights.
  backbone.batch_statistics = False

  config.head = head = ml_collections.ConfigDict()
  head.order = 2  # 1: average of the map; 2: co-occurrence matrix.
  # "gamma", "maxexp", "asinhe", "sigme" or None; of the literature "signed_sqrt",
  # "matrix_log", "newton_schulz_sqrt".
  head.power_norm = config_dict.placeholder(str)
  head.spectral = False  # Whether it acts on eigenvalues instead of entries.
  # Parameter of the Power Normalization in use. If None, suggested from features
  # (`pnjax.ops.suggest_parameters`); 0.5 for Gamma.
  head.power = config_dict.placeholder(float)
  head.eta = config_dict.placeholder(float)  # A whole number is computed faster.
  head.gamma_prime = config_dict.placeholder(float)
  head.eta_prime = config_dict.placeholder(float)
  head.lam = 1e-6  # λ of Gamma and of the trace.
  head.beta = 0.0  # β-centering, from 0 to 1; element-wise Gamma and MaxExp: 0 only.
  head.num_pivots = 0  # Z pivots per coordinate; 0 for no spatial coordinates.
  head.alpha = config_dict.placeholder(float)  # Weight α; suggested if None.
  head.sigma = 0.3  # Bandwidth σ of the coordinates.
  head.rectify = True  # Whether features are rectified first.
  head.reduction = config_dict.placeholder(int)  # Channels after a 1×1 convolution.
  head.trace_power = config_dict.placeholder(float)  # γ of Remark 6, or None.
  head.kappa = config_dict.placeholder(float)  # κ of Remark 6, or None.
  head.learnable = ()  # Names of parameters to learn: "eta_prime", "beta", ...
  head.normalize = True  # Whether pooled vectors are scaled to unit length.
  head.rank = config_dict.placeholder(int)  # Of a low-rank classifier; dense if None.

  config.optim = optim = ml_collections.ConfigDict()
  optim.name = "rmsprop"  # "rmsprop", "adam" or "sgd".
  # The rate falls once an epoch, in equal steps of its logarithm.
  optim.learning_rate = 1e-4  # In the first epoch.
  optim.final_learning_rate = 1e-6  # In the last epoch.
  optim.decay = 0.99  # Of RMSprop's average of squares.
  optim.momentum = 0.0  # Of RMSprop and SGD.
  optim.weight_decay = 0.0  # Decoupled, times the rate of each part; kernels only.
  optim.clip_norm = config_dict.placeholder(float)  # Of the whole gradient.
  optim.head_multiplier = 1.0  # Learning rate of the head over that of the backbone.
  # If not 0, the classifier learns by SGD with momentum 0.9, whatever `name` is. Its
  # rate starts here, falls by the same factor as `learning_rate`, and has to suit the
  # length of vectors, which is 1 with `head.normalize`.
  optim.classifier_rate = 0.0

  config.train = train = ml_collections.ConfigDict()
  train.batch_size = 32  # Over all devices and hosts.
  train.num_epochs = 20  # Passes over the pictures to learn from.
  # "all": every layer learns; "last_stage": the last stage of ResNet-50 and the head;
  # "last_two_convs": these and the head; "backbone": it is frozen, the head learns.
  train.freeze = "all"
  train.accumulate = 1  # Parts in which each batch is computed, to save memory.
  train.label_smoothing = 0.0  # Share of a label that all classes get alike.
  train.cache_features = False  # Compute what is frozen once; no augmentation then.
  train.log_every = 10  # Steps between records of the loss.
  train.eval_every = 1  # Epochs between evaluations; there is always a last one.
  train.checkpoint_every = 1  # Epochs between checkpoints.
  train.num_threads = config_dict.placeholder(int)  # That decode pictures.
  return config.lock()
