"""Gaussian noise: its random sources, and its standard deviation at each step."""
