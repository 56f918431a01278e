"""The trade-off curve: the largest true positive rate at each false positive rate.

The true positive rate is the share of the members that an attack calls members; the
false positive rate is the share of the non-members that it calls members.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.core.accountant import Phase
from dpsgd_explorer.accounting.core.intervals import Floats, Interval
from dpsgd_explorer.accounting.core.neighboring_relation import ADD_OR_REMOVE_ONE
from dpsgd_explorer.accounting.registry import accountant_and_relation


def trade_off(
    *,
    sample_rate: float,
    noise_multiplier: float,
    steps: int,
    false_positive_rates: Sequence[float] | float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> list[float]:
    """Returns the largest true positive rate at each false positive rate.

    >>> rates = [0.001, 0.01, 0.1]
    >>> hits = trade_off(
    ...     sample_rate=0.01,
    ...     noise_multiplier=1.1,
    ...     steps=1000,
    ...     false_positive_rates=rates,
    ... )
    >>> [round(hit, 4) for hit in hits]
    [0.0034, 0.0254, 0.1791]

    Args:
        sample_rate: Poisson inclusion probability q per step, in (0, 1].
        noise_multiplier: Noise std over the clipping bound; 0 hides nothing.
        steps: Number of steps; 0 reveals nothing.
        false_positive_rates: From 0 to 1; one number is a list of one.
        accountant: Name in ACCOUNTANTS, or "all" for the exact one.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Raises:
        AccountingError: an argument is outside its domain.

    Source: Dong, Roth and Su (2019), arXiv:1905.02383v3, Propositions 2.4 and 2.5.
    """
    run = Phase(sample_rate, noise_multiplier, steps)
    terms = (accountant, neighboring_relation)
    return [x.value for x in trade_off_intervals([run], false_positive_rates, *terms)]


def trade_off_intervals(
    phases: Sequence[Phase],
    false_positive_rates: Sequence[float] | float,
    accountant: str = "exact",
    neighboring_relation: str = ADD_OR_REMOVE_ONE,
) -> list[Interval]:
    """Returns the interval of the largest true positive rate at each rate.

    Some test reaches the lower bound, and no test exceeds the upper bound.

    >>> [best] = trade_off_intervals([Phase(0.01, 1.1, 1000)], 0.1)
    >>> round(best.lower, 3), round(float(best), 3)
    (0.179, 0.179)

    Args:
        phases: Completed phases; the list may be empty.
        false_positive_rates: From 0 to 1; one number is a list of one.
        accountant: Name in ACCOUNTANTS, or "all" for the exact one.
        neighboring_relation: "add_or_remove_one" or "replace_one".

    Raises:
        AccountingError: an argument is outside its domain, or the accountant does not
            apply to the phases.

    Source: as ``trade_off``.
    """
    chosen, relation = accountant_and_relation(accountant, neighboring_relation)
    rates = checked_rates(false_positive_rates)
    if not any(phase.steps for phase in phases):
        return [Interval(rate, rate, rate, "exact") for rate in rates.tolist()]
    return chosen.trade_off(phases, rates, relation)


def checked_rates(values: Sequence[float] | float) -> Floats:
    """Returns false positive rates as an array, [F].

    Raises:
        AccountingError: a rate is not from 0 to 1.
    """
    rates = validation.numbers("false_positive_rates", values)
    if not np.all((rates >= 0) & (rates <= 1)):
        validation.refuse("false_positive_rates", "from 0 to 1", values)
    return rates
