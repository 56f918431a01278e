"""Metrics for the operator of a site."""
