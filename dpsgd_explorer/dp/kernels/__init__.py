"""Replacements of slow torch kernels, and the precision in which gradients are held."""
