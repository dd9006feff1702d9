"""Commands: each is run as `python -m experiments.NAME`."""
