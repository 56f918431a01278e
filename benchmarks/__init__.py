"""Benchmarks of private training: measurements, results, and tables for the docs."""
