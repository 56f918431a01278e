"""Architectures of the literature, at sizes that a processor measures in minutes."""
