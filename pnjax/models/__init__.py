"""Backbones, pooling layers and a classifier in Flax Linen."""

from pnjax.models.alexnet import AlexNet
from pnjax.models.classifier import Classifier
from pnjax.models.pooling import FirstOrderPooling
from pnjax.models.pooling import SecondOrderPooling
from pnjax.models.resnet import ResNet
from pnjax.models.resnet import ResNet50
from pnjax.models.resnet import TinyResNet

__all__ = [
  "AlexNet",
  "Classifier",
  "FirstOrderPooling",
  "ResNet",
  "ResNet50",
  "SecondOrderPooling",
  "TinyResNet",
]
