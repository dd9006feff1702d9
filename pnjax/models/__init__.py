"""Backbones, pooling layers and image classifiers in Flax Linen."""

from pnjax.models._alexnet import AlexNet
from pnjax.models._backbone import Backbone
from pnjax.models._backbone import TrainableLayers
from pnjax.models._from_config import check_image_size
from pnjax.models._from_config import check_pooling
from pnjax.models._from_config import image_classifier_from_config
from pnjax.models._from_config import missing_parameters
from pnjax.models._from_config import pooling_from_config
from pnjax.models._from_config import suggest_pooling_parameters
from pnjax.models._image_classifier import ImageClassifier
from pnjax.models._pooling import PARAMETER_FIELDS
from pnjax.models._pooling import FirstOrderPooling
from pnjax.models._resnet import ResNet
from pnjax.models._resnet import ResNet18
from pnjax.models._resnet import ResNet34
from pnjax.models._resnet import ResNet50
from pnjax.models._resnet import ResNet101
from pnjax.models._resnet import ResNet152
from pnjax.models._resnet import TinyResNet
from pnjax.models._second_order import SecondOrderPooling
from pnjax.models._trainable import join_variables
from pnjax.models._trainable import last_frozen_stage
from pnjax.models._trainable import trainable_parameters
from pnjax.models._vgg import VGG16
from pnjax.models._vit import ViT
from pnjax.models._vit import ViTB14
from pnjax.models._vit import ViTB16
from pnjax.models._vit import ViTS14
from pnjax.models._vit import ViTS16

# Backbones by their names in configs.
BACKBONES: dict[str, type[Backbone]] = {
  "resnet18": ResNet18,
  "resnet34": ResNet34,
  "resnet50": ResNet50,
  "resnet101": ResNet101,
  "resnet152": ResNet152,
  "alexnet": AlexNet,
  "vgg16": VGG16,
  "vit_s16": ViTS16,
  "vit_b16": ViTB16,
  "vit_s14": ViTS14,
  "vit_b14": ViTB14,
  "tiny_resnet": TinyResNet,
}

__all__ = [
  "BACKBONES",
  "PARAMETER_FIELDS",
  "VGG16",
  "AlexNet",
  "Backbone",
  "FirstOrderPooling",
  "ImageClassifier",
  "ResNet",
  "ResNet18",
  "ResNet34",
  "ResNet50",
  "ResNet101",
  "ResNet152",
  "SecondOrderPooling",
  "TinyResNet",
  "TrainableLayers",
  "ViT",
  "ViTB14",
  "ViTB16",
  "ViTS14",
  "ViTS16",
  "check_image_size",
  "check_pooling",
  "image_classifier_from_config",
  "join_variables",
  "last_frozen_stage",
  "missing_parameters",
  "pooling_from_config",
  "suggest_pooling_parameters",
  "trainable_parameters",
]
