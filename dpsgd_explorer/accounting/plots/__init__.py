"""Plotly figures of ε, δ and the trade-off, for notebooks; needs plotly."""

from dpsgd_explorer.accounting.plots.figures import (
    delta_over_epsilon,
    epsilon_over_noise,
    trade_off_band,
)

__all__ = ["delta_over_epsilon", "epsilon_over_noise", "trade_off_band"]
