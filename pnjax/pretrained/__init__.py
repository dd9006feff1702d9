"""Weights of other frameworks as Flax trees, loaded strictly or not at all."""

from pnjax.pretrained._load import Pretrained
from pnjax.pretrained._load import load
from pnjax.pretrained._load import save
from pnjax.pretrained._recipes import RECIPES
from pnjax.pretrained._recipes import Recipe

__all__ = ["RECIPES", "Pretrained", "Recipe", "load", "save"]
