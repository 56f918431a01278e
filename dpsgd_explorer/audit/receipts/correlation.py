"""Correlated noise and fixed slots in a receipt: the columns, and what the steps cost.

A receipt states the first column of C (``noise_correlation``) or, if that one is short,
of C⁻¹ (``noise_weights``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpsgd_explorer.accounting import Phase, ToeplitzStrategy, fixed_slots
from dpsgd_explorer.accounting.correlated.strategies import strategy_of_inverse
from dpsgd_explorer.audit.receipts.findings import Findings
from dpsgd_explorer.errors import AccountingError, ReceiptError

#: Sampling of a receipt, with each record in the same step of every epoch.
FIXED_SLOTS = "fixed slots"
COLUMN, WEIGHTS = "noise_correlation", "noise_weights"
#: Unit of privacy of a receipt that states none.
RECORD = "record"
#: Largest number of planned steps for which columns are computed.
MAX_STEPS = 1_000_000


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
        findings.require(
            f"{path}{name}",
            told[name],
            f"1 to {most} numbers, the first of them 1",
            _is_column(told[name], most),
        )
        planned = told["planned_steps"]
        rule = "given with correlated noise"
        findings.require(f"{path}planned_steps", planned, rule, planned is not None)
    if WEIGHTS in told:
        fits = COLUMN not in told and told["sampling"] == FIXED_SLOTS
        findings.require(f"{path}{WEIGHTS}", told[WEIGHTS], "left out", fits)


def _is_column(column: list[Any], most: int) -> bool:
    try:
        ToeplitzStrategy(tuple(column), most)
    except AccountingError:
        return False
    return True


def is_correlated(told: Mapping[str, Any]) -> bool:
    """Returns True if a receipt states a strategy of correlated noise."""
    return COLUMN in told or WEIGHTS in told


def check_bounds(
    findings: Findings, path: str, told: Mapping[str, Any], chosen: Sequence[Any]
) -> None:
    """Checks that the clipping bound is constant with correlated noise.

    Later noise cancels noise of the first bound.
    """
    if is_correlated(told):
        rule = "left out with correlated noise"
        findings.require(f"{path}chosen_bounds", list(chosen), rule, not chosen)


def check_alone(findings: Findings, receipt: Mapping[str, Any]) -> None:
    """Checks that the steps have only options that an engine combines with them."""
    told, options = receipt["told"], receipt["options"]
    if not is_correlated(told) and told["sampling"] != FIXED_SLOTS:
        return
    stated = {
        "options.noise_schedule": (options.get("noise_schedule"), None),
        "options.clipping_schedule": (options.get("clipping_schedule"), None),
        "options.unit": (options.get("unit", RECORD), RECORD),
        "audit": (receipt["audit"], None),
        "world_size": (receipt["world_size"], 1),
    }
    for path, (value, only) in stated.items():
        rule = f"{only or 'left out'} with correlated noise or fixed slots"
        findings.require(path, value, rule, value == only)
    sampling = options.get("sampling")
    rule = "checked with correlated noise or fixed slots"
    findings.require("options.sampling", sampling, rule, sampling != "unchecked")


def fixed_slots_of(told: Mapping[str, Any]) -> Phase:
    """Returns the Gaussian release that the steps cost together.

    Raises:
        ReceiptError: the number of slots or of planned steps is missing.
        AccountingError: a number is outside its domain.
    """
    for name in ("slots", "planned_steps"):
        is_needed = name == "slots" or is_correlated(told)
        if is_needed and told.get(name) is None:
            raise ReceiptError(f"told.{name}", "must be given with fixed slots.")
    if is_correlated(told) and told["planned_steps"] > MAX_STEPS:
        rule = f"must be at most {MAX_STEPS} with correlated noise."
        raise ReceiptError("told.planned_steps", rule)
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
