"""Kernels for accelerators, in Triton, which comes with torch's builds for them."""
