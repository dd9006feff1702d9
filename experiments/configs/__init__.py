"""Configs of the experiments. `pnjax/config.py` explains every field."""
