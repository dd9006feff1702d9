"""Speed and memory against peers, one command each."""
