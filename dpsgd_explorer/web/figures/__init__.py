"""Figures of the landing page, chapters, labs and runs.

Each function computes its numbers and returns a ``Picture``.
"""
