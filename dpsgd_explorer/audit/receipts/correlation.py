"""Correlated noise and fixed slots in a receipt: the columns, and what the steps cost.

A receipt states the first column of C (``noise_correlation``) or, if that one is short,
of C⁻¹ (``noise_weights``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpsgd_explorer.accounting import Phase, ToeplitzStrategy, fixed_slots
from dpsgd_explorer.accounting.correlated.strategies import strategy_of_inverse
from dpsgd_explorer.audit.receipts.findings import Findings
from dpsgd_explorer.errors import ReceiptError

#: Sampling of a receipt, with each record in the same step of every epoch.
FIXED_SLOTS = "fixed slots"
COLUMN, WEIGHTS = "noise_correlation", "noise_weights"


def check_columns(
    findings: Findings, path: str, told: Mapping[str, Any], most: int
) -> None:
    """Checks the columns of the strategy, and that only fixed slots state weights.

    Args:
        findings: Result of the check; figures are added to it.
        path: Place in the receipt.
        told: Settings that the accountant received.
        most: Largest number of coefficients.
    """
    for name in (COLUMN, WEIGHTS):
        if name not in told:
            continue
        column = told[name]
        is_column = all(isinstance(x, int | float) for x in column)
        findings.require(
            f"{path}{name}",
            column,
            f"1 to {most} numbers, the first of them 1",
            is_column and 1 <= len(column) <= most and column[0] == 1,
        )
    if WEIGHTS in told:
        fits = COLUMN not in told and told["sampling"] == FIXED_SLOTS
        findings.require(f"{path}{WEIGHTS}", told[WEIGHTS], "left out", fits)


def fixed_slots_of(told: Mapping[str, Any]) -> Phase:
    """Returns the Gaussian release that the steps cost together.

    Raises:
        ReceiptError: the number of slots or of planned steps is missing.
        AccountingError: a number is outside its domain.
    """
    for name in ("slots", "planned_steps"):
        is_needed = name == "slots" or COLUMN in told or WEIGHTS in told
        if is_needed and told.get(name) is None:
            raise ReceiptError(f"told.{name}", "must be given with fixed slots.")
    return fixed_slots(
        noise_multiplier=told["noise_multiplier"],
        steps=told["steps"],
        slots=told["slots"],
        strategy=_strategy(told),
    )


def _strategy(told: Mapping[str, Any]) -> ToeplitzStrategy | None:
    if COLUMN in told:
        return ToeplitzStrategy(tuple(told[COLUMN]), told["planned_steps"])
    if WEIGHTS in told:
        return strategy_of_inverse(told[WEIGHTS], told["planned_steps"])
    return None
