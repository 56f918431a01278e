"""Data files, from the package, from the machine or downloaded."""
