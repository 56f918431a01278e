"""Which strategy of correlated noise fits the sampling of a plan."""

from __future__ import annotations

from dpsgd_explorer.accounting.core import validation
from dpsgd_explorer.accounting.correlated.strategies import ToeplitzStrategy
from dpsgd_explorer.accounting.sampling_schemes import FIXED_SLOTS, POISSON


def check_strategy(
    strategy: object, *, sampling: str, steps: int, most_bands: int, has_schedule: bool
) -> None:
    """Checks that the strategy of the noise fits the other settings of a plan.

    Args:
        strategy: Strategy of correlated noise; None for independent noise.
        sampling: Sampling of the plan.
        steps: Steps of the plan.
        most_bands: Largest number of groups of records.
        has_schedule: If True, the noise follows a schedule.

    Raises:
        AccountingError: it does not fit.
    """
    if has_schedule and sampling == FIXED_SLOTS:
        rule = f"None with sampling {FIXED_SLOTS!r}, whose ε assumes constant noise"
        validation.refuse("noise_schedule", rule, "a schedule")
    if strategy is not None:
        _check_one(strategy, sampling, steps, most_bands, has_schedule)


def _check_one(
    strategy: object, sampling: str, steps: int, most_bands: int, has_schedule: bool
) -> None:
    name = "noise_correlation"
    if not isinstance(strategy, ToeplitzStrategy):
        validation.refuse(name, "a ToeplitzStrategy or None", strategy)
    if sampling not in (POISSON, FIXED_SLOTS):
        rule = (
            f"None with sampling {sampling!r}, for which its ε is not known. Use "
            f"sampling {POISSON!r} or {FIXED_SLOTS!r}"
        )
        validation.refuse(name, rule, strategy)
    if has_schedule:
        validation.refuse(name, "None with a noise_schedule", strategy)
    if strategy.steps != steps:
        rule = f"a strategy of {steps} steps, as the plan has"
        validation.refuse(name, rule, f"{strategy.steps} steps")
    if sampling == POISSON:
        _check_bands(strategy, most_bands)
    elif min(strategy.coefficients) < 0:
        rule = f"without negative coefficients, with sampling {FIXED_SLOTS!r}"
        validation.refuse(name, rule, min(strategy.coefficients))


def _check_bands(strategy: ToeplitzStrategy, most_bands: int) -> None:
    name = "noise_correlation"
    if strategy.inverse is not None:
        rule = (
            f"a banded strategy with sampling {POISSON!r}, because C and not its "
            f"inverse must be banded there. Use sampling {FIXED_SLOTS!r}"
        )
        validation.refuse(name, rule, f"the inverse column {strategy.inverse}")
    if strategy.bands > most_bands:
        rule = (
            f"a strategy of at most {most_bands} bands, because each group must have "
            "a batch's expected number of records. Use fewer bands or smaller "
            "batches"
        )
        validation.refuse(name, rule, f"{strategy.bands} bands")
