"""Losses of a batch: which keep its samples apart, and a reduction that does."""

from dpsgd_explorer.dp.losses.reduction import per_sample_mean

__all__ = ["per_sample_mean"]
