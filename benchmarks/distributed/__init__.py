"""Benchmarks of several processes that train one model."""
