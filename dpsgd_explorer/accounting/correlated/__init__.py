"""Noise that is correlated between steps: strategies, their errors and their ε."""
