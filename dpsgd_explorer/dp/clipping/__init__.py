"""Clipping: the bound, the clipping groups, and the sum of clipped gradients."""
