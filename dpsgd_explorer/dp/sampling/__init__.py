"""Sampling: the samplers, and the loaders that fetch their batches."""
