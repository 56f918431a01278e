"""Figures of ε over the noise, of δ over ε, and of the trade-off.

Each function returns a ``plotly.graph_objects.Figure``.  Plotly is imported at the
first call.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.intervals import Floats, Interval
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.mechanisms.odometer import Odometer
from dpsgd_explorer.accounting.queries import epsilons
from dpsgd_explorer.accounting.trade_off_curves import checked_rates
from dpsgd_explorer.errors import MissingPackageError

#: False positive rates of a trade-off without ``false_positive_rates``.
DEFAULT_RATES = [0.0, *np.geomspace(1e-4, 1.0, 40).tolist()]


def epsilon_over_noise(
    *,
    noise_multipliers: Sequence[float],
    sample_rate: float,
    steps: int,
    delta: float,
    accountants: Sequence[str] = ("exact",),
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> Any:
    """Returns a figure of ε over the noise multiplier, one line per accountant.

    >>> figure = epsilon_over_noise(
    ...     noise_multipliers=[0.8, 1.0, 1.5],
    ...     sample_rate=0.01,
    ...     steps=1000,
    ...     delta=1e-5,
    ...     accountants=["exact", "rdp"],
    ... )
    >>> [(line.name, round(float(line.y[1]), 2)) for line in figure.data]
    [('exact', 1.83), ('rdp', 2.1)]

    Args:
        noise_multipliers: Noise stds over the clipping bound, [S].
        sample_rate: Poisson inclusion probability q per step, in (0, 1].
        steps: Number of steps.
        delta: In (0, 1).
        accountants: Names in ACCOUNTANTS.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Raises:
        AccountingError: an argument is outside its domain.
        MissingPackageError: plotly is not installed.

    Source: as ``epsilon``.
    """
    go = _plotly()
    noise = validation.numbers("noise_multiplier", noise_multipliers)
    lines = [
        go.Scatter(
            x=noise,
            y=epsilons(
                sample_rate=sample_rate,
                noise_multiplier=noise,
                steps=steps,
                delta=delta,
                accountant=accountant,
                neighboring_relation=neighboring_relation,
            ),
            name=accountant,
            mode="lines",
        )
        for accountant in accountants
    ]
    figure = go.Figure(lines)
    figure.update_xaxes(title="noise multiplier σ")
    figure.update_yaxes(title=f"ε at δ = {delta:g}", type="log")
    return _titled(figure, "ε over the noise multiplier")


def delta_over_epsilon(
    odometer: Odometer,
    epsilons: Sequence[float],
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> Any:
    """Returns a figure of δ over ε, as the band between the exact accountant's bounds.

    >>> ledger = Odometer()
    >>> ledger.add_gaussian(2.0)
    >>> figure = delta_over_epsilon(ledger, [0.5, 1.0, 2.0])
    >>> [line.name for line in figure.data], f"{figure.data[1].y[1]:.3g}"
    (['lower bound', 'upper bound'], '0.00683')

    Args:
        odometer: The mechanisms that ran.
        epsilons: Values of ε, at least 0, [E].
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Raises:
        AccountingError: an argument is outside its domain.
        MissingPackageError: plotly is not installed.

    Source: as ``Odometer.delta``.
    """
    at = validation.numbers("epsilon", epsilons)
    deltas = [
        odometer.delta_interval(x, neighboring_relation=neighboring_relation)
        for x in at.tolist()
    ]
    figure = _band(at, deltas)
    figure.update_xaxes(title="ε")
    figure.update_yaxes(title="δ", type="log", exponentformat="power")
    return _titled(figure, "δ over ε")


def trade_off_band(
    odometer: Odometer,
    false_positive_rates: Sequence[float] | None = None,
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> Any:
    """Returns a figure of the best attack, as the band between its bounds.

    No attack on the outputs has a true positive rate above the band, and some attack
    reaches its lower end.  The dotted line is a guess without the outputs.

    >>> ledger = Odometer()
    >>> ledger.add_dp_sgd(sample_rate=0.01, noise_multiplier=1.1, steps=1000)
    >>> figure = trade_off_band(ledger, [0.01, 0.1])
    >>> [round(rate, 3) for rate in figure.data[1].y]
    [0.025, 0.179]

    Args:
        odometer: The mechanisms that ran.
        false_positive_rates: From 0 to 1, [F]; None means 0 and 40 rates from 0.0001.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Raises:
        AccountingError: an argument is outside its domain.
        MissingPackageError: plotly is not installed.

    Source: as ``trade_off``.
    """
    chosen = DEFAULT_RATES if false_positive_rates is None else false_positive_rates
    rates = checked_rates(chosen)
    hits = odometer.trade_off(rates.tolist(), neighboring_relation=neighboring_relation)
    figure = _band(rates, hits)
    figure.add_scatter(
        x=rates, y=rates, mode="lines", line_dash="dot", name="guess without outputs"
    )
    figure.update_xaxes(title="false positive rate")
    figure.update_yaxes(title="true positive rate")
    return _titled(figure, "Largest true positive rate of an attack")


def _band(x: Floats, bounds: Sequence[Interval]) -> Any:
    """Returns a figure with the area between lower and upper bounds."""
    go = _plotly()
    lower = [0.0 if bound.lower is None else bound.lower for bound in bounds]
    upper = [bound.value for bound in bounds]
    return go.Figure(
        [
            go.Scatter(x=x, y=lower, mode="lines", name="lower bound"),
            go.Scatter(x=x, y=upper, mode="lines", name="upper bound", fill="tonexty"),
        ]
    )


def _titled(figure: Any, title: str) -> Any:
    figure.update_layout(title=title, template="plotly_white")
    return figure


def _plotly() -> Any:
    """Returns ``plotly.graph_objects``.

    Raises:
        MissingPackageError: plotly is not installed.
    """
    try:
        return import_module("plotly.graph_objects")
    except ImportError as error:
        raise MissingPackageError(
            "accounting.plots needs plotly. Run: pip install plotly"
        ) from error
