"""What carries runs out: the consumer, its processes, their supervision."""
