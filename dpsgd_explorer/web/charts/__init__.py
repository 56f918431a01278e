"""Descriptions of charts, which the server and the scripts draw: lines, axes, words."""
