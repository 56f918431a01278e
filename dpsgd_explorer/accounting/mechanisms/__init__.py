"""Mechanisms other than DP-SGD, their composition with it, and dp-accounting events."""
