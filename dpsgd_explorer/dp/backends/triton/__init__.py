"""Kernels for CUDA devices in Triton, which is part of torch's builds for CUDA."""
