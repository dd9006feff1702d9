"""Configs of the experiments; `default.py` explains every field."""
