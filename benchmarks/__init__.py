"""Speed and memory, against peers where there are any."""
