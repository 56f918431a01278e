"""Poisson sampling: the sampler, and the loader that fetches its batches."""
