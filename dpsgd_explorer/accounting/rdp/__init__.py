"""Rényi differential privacy: moments of the privacy loss."""
