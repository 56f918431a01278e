"""Scripts that run as they stand.

A package, since others install one of the same name, which would come first.
"""
