"""Studies over several configs: tables of methods, and sweeps of a parameter."""
