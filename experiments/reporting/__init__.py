"""The HTML page about finished runs."""
