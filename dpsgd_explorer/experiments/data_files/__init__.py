"""Data files: those of the package, and those that a machine may have or fetch."""
