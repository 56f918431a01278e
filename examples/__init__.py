"""Scripts to copy from; see README.md.

This folder is a package, since Python would otherwise find a package `examples` that
another distribution installs.
"""
