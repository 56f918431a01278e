"""The HTML routes."""
