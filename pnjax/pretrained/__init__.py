"""Weights from other frameworks as Flax trees, loaded strictly or not at all."""

from pnjax.pretrained._backbone import BackboneSpec
from pnjax.pretrained._backbone import backbone_from_config
from pnjax.pretrained._backbone import initial_variables
from pnjax.pretrained._backbone import untrained_backbone
from pnjax.pretrained._backbone import weights_path
from pnjax.pretrained._convert import convert
from pnjax.pretrained._downloads import SOURCES
from pnjax.pretrained._downloads import UnavailableError
from pnjax.pretrained._downloads import fetch
from pnjax.pretrained._load import Pretrained
from pnjax.pretrained._load import load
from pnjax.pretrained._load import save
from pnjax.pretrained._preprocessing import CENTERED
from pnjax.pretrained._preprocessing import Preprocessing
from pnjax.pretrained._recipes import RECIPES
from pnjax.pretrained._recipes import Recipe

__all__ = [
  "CENTERED",
  "RECIPES",
  "SOURCES",
  "BackboneSpec",
  "Preprocessing",
  "Pretrained",
  "Recipe",
  "UnavailableError",
  "backbone_from_config",
  "convert",
  "fetch",
  "initial_variables",
  "load",
  "save",
  "untrained_backbone",
  "weights_path",
]
