"""Backbones in Flax Linen."""

from pnjax.models.alexnet import AlexNet
from pnjax.models.resnet import ResNet
from pnjax.models.resnet import ResNet50
from pnjax.models.resnet import TinyResNet

__all__ = ["AlexNet", "ResNet", "ResNet50", "TinyResNet"]
