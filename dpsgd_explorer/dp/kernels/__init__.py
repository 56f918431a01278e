"""Kernels of our own where torch's are slow, chosen by a probe."""
