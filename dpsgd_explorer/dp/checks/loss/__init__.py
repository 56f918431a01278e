"""Checks from the graph of a loss that it is a mean or sum of per-sample terms."""
