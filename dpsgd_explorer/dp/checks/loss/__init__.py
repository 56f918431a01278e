"""Losses of a batch: which keep its samples apart, and a reduction that does."""

from dpsgd_explorer.dp.checks.loss.reduction import per_sample_mean

__all__ = ["per_sample_mean"]
