"""Kernels for CPUs, compiled from C if a compiler was found at install time."""
