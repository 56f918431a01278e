"""The pictures of the landing page and the chapters, one a file.

Each function returns a ``Picture``; its numbers are computed when it is drawn.
"""
