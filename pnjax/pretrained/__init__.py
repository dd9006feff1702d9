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
from pnjax.pretrained._files import NETWORK_FILE
from pnjax.pretrained._load import Pretrained
from pnjax.pretrained._load import load
from pnjax.pretrained._load import save
from pnjax.pretrained._networks import flat_variables
from pnjax.pretrained._networks import nested_variables
from pnjax.pretrained._networks import save_network
from pnjax.pretrained._preprocessing import CENTERED
from pnjax.pretrained._preprocessing import Preprocessing
from pnjax.pretrained._recipes import RECIPES
from pnjax.pretrained._recipes import Recipe
from pnjax.pretrained._recipes import recipe_without_weights

__all__ = [
  "CENTERED",
  "NETWORK_FILE",
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
  "flat_variables",
  "initial_variables",
  "load",
  "nested_variables",
  "recipe_without_weights",
  "save",
  "save_network",
  "untrained_backbone",
  "weights_path",
]
