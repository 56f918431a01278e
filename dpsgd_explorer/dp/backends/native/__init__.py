"""Kernels for CPUs, compiled from C where a compiler was found."""
