"""How runs are carried out: the consumer, its processes, their supervision."""
