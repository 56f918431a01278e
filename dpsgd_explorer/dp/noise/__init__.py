"""Gaussian noise: its generators, its size at each step, its schedules."""
