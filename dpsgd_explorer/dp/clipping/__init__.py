"""Clipping: the bound, its groups of parameters, the clipped sum."""
