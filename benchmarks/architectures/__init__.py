"""Published architectures, at sizes that a CPU measures within minutes."""
