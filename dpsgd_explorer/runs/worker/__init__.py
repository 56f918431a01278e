"""Training of runs: the consumer, its training processes and their supervision."""
